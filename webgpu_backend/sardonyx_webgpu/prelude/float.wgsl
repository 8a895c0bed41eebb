// Functions of f32. Compilers may assume that there are no NaNs and reassociate sums: tests look at bits, and nothing
// here relies on (a + b) - a.

fn float_of_bits(bits: u32) -> f32 {
    return bitcast<f32>(bits);
}

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_inf(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

fn float_min(a: f32, b: f32) -> f32 {
    return select(b, a, (a < b) | is_nan(a));
}

fn float_max(a: f32, b: f32) -> f32 {
    return select(b, a, (a > b) | is_nan(a));
}

fn float_sign(x: f32) -> f32 {
    return select(sign(x), x, is_nan(x));
}

// The exponent of a finite magnitude other than 0, with which its mantissa has bit 23 set.
fn magnitude_exponent(magnitude: u32) -> i32 {
    let biased = i32(magnitude >> 23u);
    return select(biased, 9 - i32(countLeadingZeros(magnitude)), biased == 0);
}

fn magnitude_mantissa(magnitude: u32) -> u32 {
    let subnormal = magnitude << (u32(1 - magnitude_exponent(magnitude)) & 31u);
    return select((magnitude & 0x7fffffu) | 0x800000u, subnormal, magnitude < 0x800000u);
}

// Exact, as C's fmod: the remainder of the mantissas, eight more bits of the quotient at a time.
fn float_rem(a: f32, b: f32) -> f32 {
    let bits = bitcast<u32>(a);
    let top = bits & 0x7fffffffu;
    let bottom = bitcast<u32>(b) & 0x7fffffffu;
    if (top > 0x7f800000u) { return a; }
    if (bottom > 0x7f800000u) { return b; }
    if (top == 0x7f800000u || bottom == 0u) { return float_of_bits(0x7fc00000u); }
    if (top < bottom) { return a; }
    let divisor = magnitude_mantissa(bottom);
    var exponent = magnitude_exponent(top);
    let target_exponent = magnitude_exponent(bottom);
    var rest = magnitude_mantissa(top) % divisor;
    while (exponent > target_exponent) {
        let step = min(exponent - target_exponent, 8);
        rest = (rest << u32(step)) % divisor;
        exponent -= step;
    }
    if (rest == 0u) { return bitcast<f32>(bits & 0x80000000u); }
    let lead = i32(countLeadingZeros(rest)) - 8;
    let shift = min(lead, max(exponent - 1, 0));
    let normal = (rest << u32(lead)) + (u32(exponent - lead - 1) << 23u);
    let subnormal = select(rest << u32(shift), rest >> (u32(1 - exponent) & 31u), exponent < 1);
    return bitcast<f32>((bits & 0x80000000u) | select(subnormal, normal, exponent - lead >= 1));
}

// 2^(y * log2(x)) for a positive finite x, within 2 ulp. The logarithm is high + low, high having 12 bits.
fn float_power_of_magnitude(magnitude: u32, y: f32) -> f32 {
    // x = 2^exponent * m, m from 2/3 to 4/3; log2(m) = 2 / ln(2) * atanh(s), s = (m - 1) / (m + 1).
    let mantissa = i32(magnitude_mantissa(magnitude));
    let upper = mantissa > 0xaaaaaa;
    let one = select(0x800000, 0x1000000, upper);
    let exponent = f32(magnitude_exponent(magnitude) - select(127, 126, upper));
    let top = mantissa - one;
    let bottom = mantissa + one;
    // s to 36 bits: a quotient of 12 bits, and that of the remainder, which integers give exactly.
    let shift = countLeadingZeros(u32(abs(top)) | 1u) - 8u;
    let scale = bitcast<f32>((127u - shift) << 23u);
    let numerator = top << shift;
    let quotient = i32(f32(numerator) / f32(bottom) * 0x1p12f);
    let remainder = i32((u32(numerator) << 12u) - u32(quotient) * u32(bottom));
    let s_high = f32(quotient) * 0x1p-12f * scale;
    let s_low = f32(remainder) / f32(bottom) * 0x1p-12f * scale;
    let s = s_high + s_low;
    let square = s * s;
    let series = square * (0x1.555556p-2f + square * (0x1.99999ap-3f + square * (0x1.249248p-3f + square * 0x1.d3p-4f)));
    // 2 / ln(2) is 0x1.715p1 + 0x1.d94ae2p-11; s_high has 13 bits, so its product with the first is exact.
    let first = 0x1.715p1f * s_high;
    let second = 0x1.715p1f * s_low + s * 0x1.d94ae2p-11f + 0x1.715476p1f * s * series;
    let high = bitcast<f32>(bitcast<u32>(exponent + first + second) & 0xfffff000u);
    let low = ((exponent - high) + first) + second;
    // The product with y, the same way; beyond 2^32 it overflows whatever x is, unless that is 1.
    let limited = clamp(y, -0x1p32f, 0x1p32f);
    let y_high = bitcast<f32>(bitcast<u32>(limited) & 0xfffff000u);
    let main_part = clamp(y_high * high, -300.0f, 300.0f);
    let whole = round(main_part);
    let rest = y_high * low + (limited - y_high) * (high + low);
    let f = clamp((main_part - whole) + rest, -1.0f, 1.0f);
    let fraction = 1.0f + f * (0x1.62e43p-1f + f * (0x1.ebfbep-3f + f * (0x1.c6b08ep-5f + f * (0x1.3b2ab6p-7f
        + f * (0x1.5d87fep-10f + f * (0x1.430912p-13f + f * 0x1.ffcbfcp-17f))))));
    let n = i32(whole);
    let half = n >> 1u;
    return fraction * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(n - half + 127) << 23u);
}

// As C's pow has it at the edges.
fn float_pow(x: f32, y: f32) -> f32 {
    let magnitude = bitcast<u32>(x) & 0x7fffffffu;
    let y_magnitude = bitcast<u32>(y) & 0x7fffffffu;
    if (y_magnitude == 0u || bitcast<u32>(x) == 0x3f800000u) { return 1.0f; }
    if (magnitude > 0x7f800000u) { return x; }
    if (y_magnitude > 0x7f800000u) { return y; }
    let negative = magnitude != bitcast<u32>(x);
    let whole = y_magnitude >= 0x4b800000u || floor(y) == y;
    let odd = y_magnitude < 0x4b800000u && whole && (i32(y) & 1) == 1;
    let sign = select(0u, 0x80000000u, negative && odd);
    if (magnitude == 0u || magnitude == 0x7f800000u) {
        return bitcast<f32>(sign | select(0x7f800000u, 0u, (magnitude == 0u) == (y > 0.0f)));
    }
    if (negative && !whole) { return float_of_bits(0x7fc00000u); }
    return bitcast<f32>(sign | bitcast<u32>(float_power_of_magnitude(magnitude, y)));
}
