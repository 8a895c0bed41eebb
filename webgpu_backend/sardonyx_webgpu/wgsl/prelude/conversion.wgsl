// Conversions. Float to integer saturates and NaN gives 0; what does not fit a float is rounded to nearest, ties to even.

fn float_truth(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) != 0u;
}

fn int_of_float(x: f32) -> i32 {
    let limited = select(select(i32(x), 0x7fffffff, x >= 0x1p31f), -0x7fffffff - 1, x < -0x1p31f);
    return select(limited, 0, is_nan(x));
}

fn uint_of_float(x: f32) -> u32 {
    return select(select(u32(x), 0xffffffffu, x >= 0x1p32f), 0u, (x <= 0.0f) | is_nan(x));
}

// Half of a large one, its lowest bit kept for the rounding: SwiftShader rounds u32 wrongly, i32 rightly.
fn float_of_uint(x: u32) -> f32 {
    return select(f32(i32(x)), f32(i32((x >> 1u) | (x & 1u))) * 2.0f, i32(x) < 0);
}

fn i64_of_int(x: i32) -> vec2<u32> {
    return vec2<u32>(u32(x), u32(x >> 31u));
}

fn u64_of_magnitude(magnitude: u32) -> vec2<u32> {
    let mantissa = vec2<u32>((magnitude & 0x7fffffu) | 0x800000u, 0u);
    let exponent = i32(magnitude >> 23u) - 150;
    return select(u64_shl(mantissa, u32(max(exponent, 0))), u64_shr(mantissa, u32(max(-exponent, 0))), exponent < 0);
}

fn u64_of_float(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    let limited = select(u64_of_magnitude(bits), vec2<u32>(0xffffffffu, 0xffffffffu), bits >= 0x5f800000u);
    return select(limited, vec2<u32>(0u, 0u), (bits >= 0x80000000u) | is_nan(x));
}

fn i64_of_float(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    let negative = bits != magnitude;
    let high = select(0x7fffffffu, 0x80000000u, negative);
    let whole = u64_of_magnitude(magnitude);
    let inside = select(whole, u64_neg(whole), negative);
    let limited = select(inside, vec2<u32>(select(0xffffffffu, 0u, negative), high), magnitude >= 0x5f000000u);
    return select(limited, vec2<u32>(0u, 0u), is_nan(x));
}

fn float_of_u64(x: vec2<u32>) -> f32 {
    let lead = select(countLeadingZeros(x.y), 32u + countLeadingZeros(x.x), x.y == 0u);
    let shifted = u64_shl(x, lead);
    return float_of_uint(shifted.y | u32(shifted.x != 0u)) * bitcast<f32>((159u - lead) << 23u);
}

fn float_of_i64(x: vec2<u32>) -> f32 {
    let magnitude = float_of_u64(i64_abs(x));
    return select(magnitude, -magnitude, i32(x.y) < 0);
}

fn float16_round(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    let normal = (magnitude + 0xfffu + ((magnitude >> 13u) & 1u)) & 0xffffe000u;
    let subnormal = bitcast<u32>(round(bitcast<f32>(magnitude) * 0x1p24f) * 0x1p-24f);
    let finite = select(normal, subnormal, magnitude < 0x38800000u);
    let limited = select(finite, 0x7f800000u, magnitude >= 0x477ff000u);
    return bitcast<f32>((bits ^ magnitude) | select(limited, magnitude, magnitude > 0x7f800000u));
}

// The value must be one of float16's. pack2x16float need not know infinity.
fn float16_bits(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let magnitude = bits & 0x7fffffffu;
    let normal = (magnitude >> 13u) - 0x1c000u;
    let subnormal = u32(bitcast<f32>(magnitude & 0x3fffffffu) * 0x1p24f);
    let finite = select(normal, subnormal, magnitude < 0x38800000u);
    let special = select(0x7c00u, 0x7e00u, magnitude > 0x7f800000u);
    return ((bits >> 16u) & 0x8000u) | select(finite, special, magnitude >= 0x7f800000u);
}

fn float16_value(bits: u32) -> f32 {
    return unpack2x16float(bits).x;
}

fn bfloat16_round(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let rounded = bits + 0x7fffu + ((bits >> 16u) & 1u);
    return bitcast<f32>(select(rounded, bits | 0x400000u, is_nan(x)) & 0xffff0000u);
}

fn bfloat16_bits(x: f32) -> u32 {
    return bitcast<u32>(x) >> 16u;
}

fn bfloat16_value(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}
