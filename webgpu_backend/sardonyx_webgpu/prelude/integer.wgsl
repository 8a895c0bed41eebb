// Integers of up to 32 bits, held in i32 and u32. Division by zero gives 0, shifts by the width or more give 0.

fn int_div(a: i32, b: i32) -> i32 {
    return select(a / select(b, 1, b == 0), 0, b == 0);
}

fn int_rem(a: i32, b: i32) -> i32 {
    return select(a % select(b, 1, b == 0), 0, b == 0);
}

fn uint_div(a: u32, b: u32) -> u32 {
    return select(a / max(b, 1u), 0u, b == 0u);
}

fn uint_rem(a: u32, b: u32) -> u32 {
    return a % max(b, 1u);
}

fn int_shl(a: i32, b: i32, width: i32) -> i32 {
    return select(a << u32(b & (width - 1)), 0, b >= width);
}

fn int_shr(a: i32, b: i32, width: i32) -> i32 {
    return select(a >> u32(b & (width - 1)), 0, b >= width);
}

fn uint_shl(a: u32, b: u32, width: u32) -> u32 {
    return select(a << (b & (width - 1u)), 0u, b >= width);
}

fn uint_shr(a: u32, b: u32, width: u32) -> u32 {
    return select(a >> (b & (width - 1u)), 0u, b >= width);
}

fn uint_pow(a: u32, b: u32) -> u32 {
    var result = 1u;
    var base = a;
    for (var n = b; n != 0u; n >>= 1u) {
        result *= select(1u, base, (n & 1u) == 1u);
        base *= base;
    }
    return result;
}

// A negative exponent gives the reciprocal, truncated: 0 unless a is 1 or -1.
fn int_pow(a: i32, b: i32) -> i32 {
    let inverse = select(select(0, 1, a == 1), 1 - 2 * (b & 1), a == -1);
    return select(i32(uint_pow(u32(a), u32(max(b, 0)))), inverse, b < 0);
}
