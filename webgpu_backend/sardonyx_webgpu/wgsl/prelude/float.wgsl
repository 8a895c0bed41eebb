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

// A number near to x of which compilers do not know that it came of a quotient: they take x - x / y * y for zero.
fn without_last_bits(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0xfffffffcu);
}

// Whether what is left of x beside multiples of y is exact, for x and x / y: nothing in between vanishes.
fn is_middling(x: f32, y: f32) -> bool {
    return min(abs(x), abs(y)) > 0x1p-60 && max(abs(x), abs(y)) < 0x1p60;
}

// WGSL's own quotient may be off by 2.5 units in the last place, or be anything where 1 / b is no normal number.
fn float_div(a: f32, b: f32) -> f32 {
    let scale = select(1.0, 0.25, abs(b) > 0x1p125);
    let x = a * scale;
    let y = b * scale;
    let quotient = x / y;
    let near = without_last_bits(quotient);
    return select(quotient, fma(fma(-near, y, x), 1.0 / y, near), is_middling(x, quotient));
}

// WGSL's own square root may be off as 1 / inverseSqrt(x) is.
fn float_sqrt(x: f32) -> f32 {
    let root = sqrt(x);
    let near = without_last_bits(root);
    return select(root, fma(fma(-near, near, x), 0.5 / root, near), is_middling(x, root));
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
