// Functions of f32. Compilers may assume that there are no NaNs and infinities, so tests look at bits.

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

// A zero times x, which is NaN for infinity; compilers do not know that it is one.
fn float_zero(x: f32) -> f32 {
    let sign = bitcast<u32>(x) & 0x80000000u;
    return bitcast<f32>(bitcast<u32>(x * bitcast<f32>(sign)) | sign);
}

fn float_sign(x: f32) -> f32 {
    return select(sign(x), x, is_nan(x));
}
