    // Sums of floats times (number - zero point) * scale, with $PER numbers of a column in a word.
    let last = $LINE / 4 - 1;
    #for r in ROWS
    let a$r = at_a(batch, min(row + $r, $M - 1), 0);
    #end
    #for c in QUADS
    let b$c = min(quad + $c, last);
    #end
    #for r in ROWS
    #for c in QUADS
    var sum$r_$c = vec4f();
    #end
    #end
    for (var chunk = slice; chunk < $LINES / $WORDS; chunk += $SLICES) {
        #if REPEAT
        let block = chunk / $REPEAT * ($LINE / 4);
        #else
        let block = 0;
        #end
        #for c in QUADS
        let scale$c = load4_c(block + b$c);
        #if ZERO is None
        let zero$c = vec4f(load4_d(block + b$c));
        #else
        let zero$c = vec4f($ZERO);
        #end
        #end
        for (var word = chunk * $WORDS; word < (chunk + 1) * $WORDS; word++) {
            #for c in QUADS
            let y$c = load4_b(word * ($LINE / 4) + b$c);
            #end
            #for i in (PER // 4)
            #for r in ROWS
            let x$i_$r = four_a(a$r, word * $PER + $(4 * i));
            #end
            #for j in 4
            #for c in QUADS
            let y$i_$j_$c = (vec4f((y$c >> vec4($(BITS * (4 * i + j))u)) & vec4($((1 << BITS) - 1)u)) - zero$c) * scale$c;
            #for r in ROWS
            sum$r_$c = fma(vec4f(x$i_$r[$j]), y$i_$j_$c, sum$r_$c);
            #end
            #end
            #end
            #end
        }
    }
