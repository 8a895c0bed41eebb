// Four columns of a row of weights of $BITS bits; zeros beyond the last row.
fn four_b(batch: i32, k: i32, quad: i32) -> vec4f {
    let at = min(quad, $LINE / 4 - 1);
    let row = min(k, $K - 1);
    let words = load4_b(row / $PER * ($LINE / 4) + at);
    let number = vec4f((words >> vec4(u32(row % $PER * $BITS))) & vec4($((1 << BITS) - 1)u));
    #if REPEAT
    let block = row / $(PER * WORDS * REPEAT) * ($LINE / 4) + at;
    #else
    let block = at;
    #end
    #if ZERO is None
    let zero = vec4f(load4_d(block));
    #else
    let zero = vec4f($ZERO);
    #end
    return select(vec4f(), (number - zero) * load4_c(block), k < $K);
}

