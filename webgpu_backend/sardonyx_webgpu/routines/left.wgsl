// Four elements of a row of a from k on; zeros beyond K, if that is GUARDED.
fn four_a(at: i32, k: i32) -> vec4f {
    #if DEEP
    #if GUARDED
    return select(vec4f(), load4_a((at + min(k, $K - 4)) >> 2u), k < $K);
    #else
    return load4_a((at + k) >> 2u);
    #end
    #else
    let last = $K - 1;
    let x = vec4f(load_a(at + min(k, last) * $STEP), load_a(at + min(k + 1, last) * $STEP), load_a(at + min(k + 2, last) * $STEP), load_a(at + min(k + 3, last) * $STEP));
    return select(vec4f(), x, vec4(k) + vec4(0, 1, 2, 3) < vec4($K));
    #end
}

