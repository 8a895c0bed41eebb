    // Sums of bytes, in words of four along K: as floats for $WORDS words, which is exact, or PACKED.
    let matrix = batch * $LINES * ($LINE / 4);
    let last = $LINE / 4 - 1;
    #for r in ROWS
    let a$r = (batch * $M + min(row + $r, $M - 1)) * $LINES;
    #end
    #for c in QUADS
    let b$c = matrix + min(quad + $c, last);
    #end
    #for r in ROWS
    #for c in QUADS
    var sum$r_$c = vec4<i32>();
    #end
    #end
    #if PACKED
    for (var k = slice; k < $LINES; k += $SLICES) {
        #for c in QUADS
        let y$c = load4_b(b$c + k * ($LINE / 4));
        #end
        #for r in ROWS
        let x$r = word(a$r + k);
        #for c in QUADS
        sum$r_$c += vec4<i32>(vec4<$TYPE>($DOT(x$r, y$c.x), $DOT(x$r, y$c.y), $DOT(x$r, y$c.z), $DOT(x$r, y$c.w)));
        #end
        #end
    }
    #else
    for (var start = slice; start < $LINES; start += $(WORDS * SLICES)) {
        #for r in ROWS
        #for c in QUADS
        var part$r_$c = vec4f();
        #end
        #end
        let end = min(start + $(WORDS * SLICES), $LINES);
        for (var k = start; k < end; k += $SLICES) {
            #for c in QUADS
            let w$c = bitcast<vec4<$TYPE>>(load4_b(b$c + k * ($LINE / 4)));
            #for j in 4
            let y$c_$j = vec4f((w$c << vec4($(24 - 8 * j)u)) >> vec4(24u));
            #end
            #end
            #for r in ROWS
            let x$r = vec4f((vec4(bitcast<$TYPE>(word(a$r + k))) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
            #for c in QUADS
            #for j in 4
            part$r_$c = fma(vec4f(x$r[$j]), y$c_$j, part$r_$c);
            #end
            #end
            #end
        }
        #for r in ROWS
        #for c in QUADS
        sum$r_$c += vec4<i32>(part$r_$c);
        #end
        #end
    }
    #end
