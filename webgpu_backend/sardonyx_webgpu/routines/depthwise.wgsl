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
    let w$t_$u = load4_b($(t * WIDE + u) * ($N / 4) + quad);
    #end
    #end
    #for r in ROWS
    #for c in COLUMNS
    var sum$r_$c = vec4f();
    #end
    #end
    let top = down * $(ROWS * stride[0]) - $(low[0]);
    let left = across * $(COLUMNS * stride[1]) - $(low[1]);
    #for y in seen[0]
    let y$y = top + $y;
    let in$y = u32(y$y) < u32($H);
    let at$y = (batch * $H + y$y) * $W + left;
    #for x in seen[1]
    let x$y_$x = seen(at$y + $x, in$y & (u32(left + $x) < u32($W)), quad);
    #end
    #for r in ROWS
    #for t in HIGH
    #if r * stride[0] + t * step[0] == y
    #for c in COLUMNS
    #for u in WIDE
    sum$r_$c = fma(x$y_$(c * stride[1] + u * step[1]), w$t_$u, sum$r_$c);
    #end
    #end
    #end
    #end
    #end
    #end
    let same = of_column(4 * quad);
    #for r in ROWS
    if (down * $ROWS + $r < $DOWN) {
        let to$r = (batch * $DOWN + down * $ROWS + $r) * $ACROSS + across * $COLUMNS;
        #for c in COLUMNS
        if (across * $COLUMNS + $c < $ACROSS) {
            put_row((to$r + $c) * $M + 4 * quad, $M - 4 * quad, same, sum$r_$c);
        }
        #end
    }
    #end
}
