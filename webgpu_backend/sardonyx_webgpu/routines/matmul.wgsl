// a [B, M, K] x b [B, K, N]: a thread makes $ROWS rows of $QUADS fours of columns. Where both lie in fours along K, that
// is four columns, each of four sums.

#if ALONG
fn unit(batch: i32, down: i32, across: i32) {
    let row = down * $ROWS;
    let column = across * 4;
    #for r in ROWS
    let a$r = at_a(batch, min(row + $r, $M - 1), 0) >> 2u;
    #end
    #for c in 4
    let b$c = at_b(batch, 0, min(column + $c, $N - 1)) >> 2u;
    #end
    #for r in ROWS
    #for c in 4
    var sum$r_$c = vec4f();
    #end
    #end
    for (var k = 0; 4 * k < $K; k++) {
        #for c in 4
        let y$c = load4_b(b$c + k);
        #end
        #for r in ROWS
        let x$r = load4_a(a$r + k);
        #for c in 4
        sum$r_$c = fma(x$r, y$c, sum$r_$c);
        #end
        #end
    }
    let one = vec4f(1.0);
    let first = (batch * $M + row) * $N + column;
    let same = of_column(column);
    #for r in ROWS
    if (row + $r < $M) {
        put_row(first + $r * $N, $N - column, same, vec4f(dot(sum$r_0, one), dot(sum$r_1, one), dot(sum$r_2, one), dot(sum$r_3, one)));
    }
    #end
}
#else
fn right(at: i32, quad: i32) -> vec4f {
    #if WHOLE
    return load4_b((at >> 2u) + quad);
    #else
    let last = $N - 1;
    let x = 4 * quad;
    return vec4f(load_b(at + min(x, last) * $ACROSS), load_b(at + min(x + 1, last) * $ACROSS), load_b(at + min(x + 2, last) * $ACROSS), load_b(at + min(x + 3, last) * $ACROSS));
    #end
}

fn unit(batch: i32, down: i32, across: i32) {
    let row = down * $ROWS;
    let quad = across * $QUADS;
    let quads = ($N + 3) / 4;
    let matrix = at_b(batch, 0, 0);
    #for r in ROWS
    let a$r = at_a(batch, min(row + $r, $M - 1), 0);
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
        let y$j_$c = right(matrix + (k + $j) * $DOWN, b$c);
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
        let y$c = right(matrix + k * $DOWN, b$c);
        #end
        #for r in ROWS
        let x$r = vec4f(load_a(a$r + k * $STEP));
        #for c in QUADS
        sum$r_$c = fma(x$r, y$c, sum$r_$c);
        #end
        #end
    }
    #end
    let first = (batch * $M + row) * $N + 4 * quad;
    #for c in QUADS
    let same$c = of_column(4 * (quad + $c));
    #end
    #for r in ROWS
    if (row + $r < $M) {
        #for c in QUADS
        put_row(first + $r * $N + 4 * $c, $N - 4 * (quad + $c), same$c, sum$r_$c);
        #end
    }
    #end
}
#end
