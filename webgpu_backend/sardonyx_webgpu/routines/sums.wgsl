    // Sums of floats. Where both operands lie in fours ALONG K, a tile is four columns, each of four sums.
    #if ALONG
    #for r in ROWS
    let a$r = at_a(batch, min(row + $r, $M - 1), 0) >> 2u;
    #end
    #for c in 4
    let b$c = at_b(batch, 0, min(column + $c, $N - 1)) >> 2u;
    #end
    #for r in ROWS
    #for c in 4
    var part$r_$c = vec4f();
    #end
    #end
    for (var k = slice; 4 * k < $K; k += $SLICES) {
        #for c in 4
        let y$c = load4_b(b$c + k);
        #end
        #for r in ROWS
        let x$r = load4_a(a$r + k);
        #for c in 4
        part$r_$c = fma(x$r, y$c, part$r_$c);
        #end
        #end
    }
    let one = vec4f(1.0);
    #for r in ROWS
    var sum$r_0 = vec4f(dot(part$r_0, one), dot(part$r_1, one), dot(part$r_2, one), dot(part$r_3, one));
    #end
    #else
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
    for (var k = 4 * slice; k < $K; k += $(4 * SLICES)) {
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
    for (var k = slice; k < $K; k += $SLICES) {
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
    #end
