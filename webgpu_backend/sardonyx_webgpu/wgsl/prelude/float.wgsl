// Functions of f32. Compilers may assume that there are no NaNs and infinities, so tests look at bits, those of both
// operands of a comparison, which may be turned around.

fn float_of_bits(bits: u32) -> f32 {
    return bitcast<f32>(bits);
}

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn is_inf(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u;
}

// A number near to x of which compilers do not know that it came of a quotient: they take x - x / y * y for zero.
fn without_last_bits(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0xfffffffcu);
}

// The leading half of its bits: a product of two halves is exact.
fn leading_bits(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// x - a * b, which is small: exact enough even where fma rounds twice.
fn float_remainder(x: f32, a: f32, b: f32) -> f32 {
    let high = vec2(leading_bits(a), leading_bits(b));
    let low = vec2(a, b) - high;
    return fma(-low.x, low.y, fma(-low.x, high.y, fma(-high.x, low.y, fma(-high.x, high.y, x))));
}

// Neither zero nor denormal, infinity or NaN.
fn is_normal(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) - 0x00800000u < 0x7f000000u;
}

fn power_of_two(exponent: i32) -> f32 {
    return bitcast<f32>((exponent + 127) << 23u);
}

// WGSL's own quotient may be off by 2.5 units in the last place, or be anything where 1 / b is no normal number: so the
// quotient of numbers from 1 to 2 is corrected by the remainder, and gets its power of two.
fn float_div(a: f32, b: f32) -> f32 {
    let scale = select(1.0, 0.25, abs(b) > 0x1p125);
    let bits = vec2(bitcast<i32>(a), bitcast<i32>(b));
    let ones = bitcast<vec2f>((bits & vec2(i32(0x807fffffu))) | vec2(0x3f800000));
    let near = without_last_bits(ones.x / ones.y);
    let quotient = fma(float_remainder(ones.x, near, ones.y), 1.0 / ones.y, near);
    let powers = (bits >> vec2(23u)) & vec2(0xff);
    let power = powers.x - powers.y;
    let result = quotient * power_of_two(power / 2) * power_of_two(power - power / 2);
    return select((a * scale) / (b * scale), result, is_normal(a) & is_normal(b));
}

// WGSL's own square root may be off as 1 / inverseSqrt(x) is.
fn float_sqrt(x: f32) -> f32 {
    let is_small = x < 0x1p-60;
    let y = x * select(1.0, 0x1p64, is_small);
    let root = sqrt(y);
    let near = without_last_bits(root);
    let result = select(root, fma(float_remainder(y, near, near), 0.5 / root, near), is_normal(y) & (y > 0.0));
    return result * select(1.0, 0x1p-32, is_small);
}

// Whether a <= b, where GPUs take denormal numbers for zero: thresholds of trees may be the number before 0.
fn float_at_most(a: f32, b: f32) -> bool {
    return !is_nan(a) & !is_nan(b) & (float_order(a) <= float_order(b));
}

// An integer for each number but NaN, in their order; both zeros have the same.
fn float_order(x: f32) -> i32 {
    let bits = bitcast<i32>(x);
    return select(bits, -(bits & 0x7fffffff), bits < 0);
}

fn float_min(a: f32, b: f32) -> f32 {
    return select(b, a, ((a < b) | is_nan(a)) & !is_nan(b));
}

fn float_max(a: f32, b: f32) -> f32 {
    return select(b, a, ((a > b) | is_nan(a)) & !is_nan(b));
}

// A zero times x, which is NaN for infinity; compilers do not know that it is one.
fn float_zero(x: f32) -> f32 {
    let sign = bitcast<u32>(x) & 0x80000000u;
    return bitcast<f32>(bitcast<u32>(x * bitcast<f32>(sign)) | sign);
}

fn float_sign(x: f32) -> f32 {
    return select(sign(x), x, is_nan(x));
}
