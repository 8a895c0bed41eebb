// a [B, M, K] x b [B or 1, K, N]: a thread makes $ROWS rows of $QUADS fours of columns.

fn right(row: i32, quad: i32) -> vec4f {
    #if WHOLE
    return load4_b(row * $N / 4 + quad);
    #else
    let last = $N - 1;
    let at = row * $N;
    let x = 4 * quad;
    return vec4f(load_b(at + min(x, last)), load_b(at + min(x + 1, last)), load_b(at + min(x + 2, last)), load_b(at + min(x + 3, last)));
    #end
}

fn unit(batch: i32, down: i32, across: i32) {
    let row = down * $ROWS;
    let quad = across * $QUADS;
    let quads = ($N + 3) / 4;
    let matrix = $MATRIX * $K;
    #for r in ROWS
    let a$r = (batch * $M + min(row + $r, $M - 1)) * $K;
    #end
    #for c in QUADS
    let b$c = min(quad + $c, quads - 1);
    #end
    #for r in ROWS
    #for c in QUADS
    var sum$r_$c = vec4f();
    #end
    #end
    #if DEEP
    for (var k = 0; k < $K; k += 4) {
        #for j in 4
        #for c in QUADS
        let y$j_$c = right(matrix + k + $j, b$c);
        #end
        #end
        #for r in ROWS
        let x$r = load4_a((a$r + k) >> 2u);
        #for c in QUADS
        #for j in 4
        sum$r_$c = fma(vec4f(x$r[$j]), y$j_$c, sum$r_$c);
        #end
        #end
        #end
    }
    #else
    for (var k = 0; k < $K; k++) {
        #for c in QUADS
        let y$c = right(matrix + k, b$c);
        #end
        #for r in ROWS
        let x$r = vec4f(load_a(a$r + k));
        #for c in QUADS
        sum$r_$c = fma(x$r, y$c, sum$r_$c);
        #end
        #end
    }
    #end
    let first = (batch * $M + row) * $N + 4 * quad;
    #for r in ROWS
    if (row + $r < $M) {
        #for c in QUADS
        put_row(first + $r * $N + 4 * $c, $N - 4 * (quad + $c), sum$r_$c);
        #end
    }
    #end
}
