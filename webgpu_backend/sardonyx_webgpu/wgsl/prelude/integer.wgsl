// Integers of up to 32 bits, held in i32 and u32. Division by zero gives 0, shifts by the width or more, or by less than 0, too.

fn int_div(a: i32, b: i32) -> i32 {
    return select(a / select(b, 1, b == 0), 0, b == 0);
}

fn int_rem(a: i32, b: i32) -> i32 {
    return select(int_left(a, select(b, 1, b == 0)), 0, b == 0);
}

// The remainder has the sign of a; Vulkan leaves that of a % b open where one of them is negative.
fn int_left(a: i32, b: i32) -> i32 {
    return a - a / b * b;
}

fn uint_div(a: u32, b: u32) -> u32 {
    return select(a / max(b, 1u), 0u, b == 0u);
}

fn uint_rem(a: u32, b: u32) -> u32 {
    return a % max(b, 1u);
}

fn int_shl(a: i32, b: i32, width: u32) -> i32 {
    return select(a << (u32(b) & 31u), 0, u32(b) >= width);
}

fn int_shr(a: i32, b: i32, width: u32) -> i32 {
    return select(a >> (u32(b) & 31u), 0, u32(b) >= width);
}

fn uint_shl(a: u32, b: u32, width: u32) -> u32 {
    return select(a << (b & 31u), 0u, b >= width);
}

fn uint_shr(a: u32, b: u32, width: u32) -> u32 {
    return select(a >> (b & 31u), 0u, b >= width);
}
