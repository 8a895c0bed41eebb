// 64-bit integers as vec2<u32>: the low word, then the high word. i64 is two's complement.

fn u64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
    return (a.y < b.y) | ((a.y == b.y) & (a.x < b.x));
}

fn i64_lt(a: vec2<u32>, b: vec2<u32>) -> bool {
    return (i32(a.y) < i32(b.y)) | ((a.y == b.y) & (a.x < b.x));
}

fn u64_min(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, u64_lt(b, a));
}

fn u64_max(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, u64_lt(a, b));
}

fn i64_min(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, i64_lt(b, a));
}

fn i64_max(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(a, b, i64_lt(a, b));
}

fn u64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + u32(low < a.x));
}

fn u64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}

fn u64_neg(a: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(~a.x + 1u, ~a.y + u32(a.x == 0u));
}

fn u64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let al = a.x & 0xffffu;
    let ah = a.x >> 16u;
    let bl = b.x & 0xffffu;
    let bh = b.x >> 16u;
    let middle = ah * bl + ((al * bl) >> 16u);
    let other = al * bh + (middle & 0xffffu);
    let high = ah * bh + (middle >> 16u) + (other >> 16u);
    return vec2<u32>(a.x * b.x, high + a.x * b.y + a.y * b.x);
}

fn u64_shl(a: vec2<u32>, by: u32) -> vec2<u32> {
    let n = by & 31u;
    let carried = (a.x >> 1u) >> (31u - n);
    let near = vec2<u32>(a.x << n, (a.y << n) | carried);
    return select(select(near, vec2<u32>(0u, a.x << n), by >= 32u), vec2<u32>(0u, 0u), by >= 64u);
}

fn u64_shr(a: vec2<u32>, by: u32) -> vec2<u32> {
    let n = by & 31u;
    let carried = (a.y << 1u) << (31u - n);
    let near = vec2<u32>((a.x >> n) | carried, a.y >> n);
    return select(select(near, vec2<u32>(a.y >> n, 0u), by >= 32u), vec2<u32>(0u, 0u), by >= 64u);
}

// How far an element shifts: 64 or more, or less than 0, is 64, which leaves nothing.
fn u64_distance(by: vec2<u32>) -> u32 {
    return select(by.x, 64u, by.y != 0u);
}

fn i64_shr(a: vec2<u32>, by: u32) -> vec2<u32> {
    let sign = u32(i32(a.y) >> 31u);
    let flipped = u64_shr(a ^ vec2<u32>(sign, sign), by) ^ vec2<u32>(sign, sign);
    return select(flipped, vec2<u32>(0u, 0u), by >= 64u);
}

fn u64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if ((b.x | b.y) == 0u) { return vec2<u32>(0u, 0u); }
    if ((a.y | b.y) == 0u) { return vec2<u32>(a.x / max(b.x, 1u), 0u); }
    var quotient = a;
    var rest = vec2<u32>(0u, 0u);
    for (var k = 0u; k < 64u; k++) {
        let carry = rest.y >> 31u;
        rest = u64_shl(rest, 1u) | vec2<u32>(quotient.y >> 31u, 0u);
        quotient = u64_shl(quotient, 1u);
        if (carry == 1u || !u64_lt(rest, b)) {
            rest = u64_sub(rest, b);
            quotient.x |= 1u;
        }
    }
    return quotient;
}

fn u64_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(u64_sub(a, u64_mul(u64_div(a, b), b)), vec2<u32>(0u, 0u), (b.x | b.y) == 0u);
}

fn i64_abs(a: vec2<u32>) -> vec2<u32> {
    return select(a, u64_neg(a), i32(a.y) < 0);
}

fn i64_sign(a: vec2<u32>) -> vec2<u32> {
    return select(vec2<u32>(u32((a.x | a.y) != 0u), 0u), vec2<u32>(0xffffffffu, 0xffffffffu), i32(a.y) < 0);
}

fn i64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let quotient = u64_div(i64_abs(a), i64_abs(b));
    return select(quotient, u64_neg(quotient), i32(a.y ^ b.y) < 0);
}

fn i64_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let rest = u64_rem(i64_abs(a), i64_abs(b));
    return select(rest, u64_neg(rest), i32(a.y) < 0);
}
