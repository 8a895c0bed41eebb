// Four columns of a row of b; zeros beyond the last row.
fn four_b(batch: i32, k: i32, quad: i32) -> vec4f {
    let at = at_b(batch, 0, 0) + min(k, $K - 1) * $LINE;
    #if WIDE
    let x = load4_b((at >> 2u) + min(quad, $N / 4 - 1));
    #else
    let last = $N - 1;
    let n = 4 * quad;
    let x = vec4f(load_b(at + min(n, last) * $ASIDE), load_b(at + min(n + 1, last) * $ASIDE), load_b(at + min(n + 2, last) * $ASIDE), load_b(at + min(n + 3, last) * $ASIDE));
    #end
    return select(vec4f(), x, k < $K);
}

