// x [B, H, W, C] * w [KH, KW, N], channel m of C * N / C ones: a thread makes $ROWS x $COLUMNS places of four channels.

fn seen(at: i32, inside: bool, quad: i32) -> vec4f {
    let start = select(0, at, inside) * $C;
    #if MULTIPLIER == 1
    #if WHOLE
    return select(vec4f(), load4_a(start / 4 + quad), inside);
    #end
    #end
    #if MULTIPLIER > 1 or not WHOLE
    let last = $C - 1;
    let c = 4 * quad;
    #for j in 4
    let x$j = load_a(start + min((c + $j) / $MULTIPLIER, last));
    #end
    return select(vec4f(), vec4f(x0, x1, x2, x3), inside);
    #end
}

fn unit(batch: i32, down: i32, across: i32, quad: i32) {
    #for t in HIGH
    #for u in WIDE
    var w$t_$u = vec4f();
    #end
    #end
    for (var t = 0; t < $HIGH; t++) {
        #for u in WIDE
        #for t in HIGH - 1
        w$t_$u = w$(t + 1)_$u;
        #end
        w$(HIGH - 1)_$u = load4_b((t * $WIDE + $u) * ($N / 4) + quad);
        #end
    }
    #for a in AGES
    #for c in COLUMNS
    var sum$a_$c = vec4f();
    #end
    #end
    let top = down * $(ROWS * stride[0]) - $(low[0]);
    let left = across * $(COLUMNS * stride[1]) - $(low[1]);
    let same = of_column(4 * quad);
    // Sums of age 0 see the first row of theirs, and are put when they have seen the last.
    for (var r = $(1 - AGES); r < $ROWS; r++) {
        #for y in stride[0]
        let y$y = top + (r + $(AGES - 1)) * $(stride[0]) + $y;
        let in$y = u32(y$y) < u32($H);
        let at$y = (batch * $H + y$y) * $W + left;
        #for x in seen
        let x$y_$x = seen(at$y + $x, in$y & (u32(left + $x) < u32($W)), quad);
        #end
        #end
        #for a in AGES
        #for t in HIGH
        #for y in stride[0]
        #if t * step[0] == a * stride[0] + y
        #for c in COLUMNS
        #for u in WIDE
        sum$a_$c = fma(x$y_$(c * stride[1] + u * step[1]), w$t_$u, sum$a_$c);
        #end
        #end
        #end
        #end
        #end
        #end
        if (r >= 0 && down * $ROWS + r < $DOWN) {
            let to = (batch * $DOWN + down * $ROWS + r) * $ACROSS + across * $COLUMNS;
            #for c in COLUMNS
            if (across * $COLUMNS + $c < $ACROSS) {
                put_row((to + $c) * $M + 4 * quad, $M - 4 * quad, same, sum$(AGES - 1)_$c);
            }
            #end
        }
        #for c in COLUMNS
        #for a in AGES - 1
        sum$(AGES - 1 - a)_$c = sum$(AGES - 2 - a)_$c;
        #end
        sum0_$c = vec4f();
        #end
    }
}
