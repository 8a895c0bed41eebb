// q [B, H, S, D], k [B, G, T, D], v [B, G, T, E]: a thread makes $ROWS rows of $QUADS fours of columns, of the queries of
// all heads that share keys. It takes four keys at a time, and scales what it has by how the largest score grew.

#include FOURS
// Of the largest weight, which is 1, errors are as small as those of exp near 0. What is not a number stays, by its bits:
// compilers make a maximum, which drops it, of comparisons.
fn powers(x: vec4f) -> vec4f {
    let absent = (bitcast<vec4u>(x) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u);
    return select(exp(max(x, vec4f(-200.0))), x, absent);
}

fn unit(batch: i32, group: i32, down: i32, across: i32) {
    let rows = $SHARE * $S;
    let keys = at_b(batch, group, 0, 0);
    let values = at_c(batch, group, 0, 0);
    let quad = across * $QUADS;
    #include LINES
    #for r in ROWS
    let a$r = at_a(batch, head$r, query$r, 0);
    var most$r = -0x1.fffffep127f;
    var total$r = 0.0;
    #for c in QUADS
    var sum$r_$c = vec4f();
    #end
    #end
    for (var t = 0; t < last; t += 4) {
        #for j in 4
        let key$j = min(t + $j, $T - 1);
        let b$j = keys + key$j * $DOWNB;
        #for r in ROWS
        var dot$r_$j = 0.0;
        #end
        #end
        for (var part = 0; part < $PARTS; part++) {
            #for d in DEEP
            {
                let d = part * $DEEP + $d;
                #for j in 4
                let y$j = four_k(b$j, d);
                #end
                #for r in ROWS
                let x$r = four_q(a$r, d);
                #for j in 4
                dot$r_$j += dot(x$r, y$j);
                #end
                #end
            }
            #end
        }
        #for r in ROWS
        var score$r = vec4f(dot$r_0, dot$r_1, dot$r_2, dot$r_3);
        var seen$r = vec4<i32>(t, t + 1, t + 2, t + 3) < vec4<i32>(end$r);
        #if BIASED
        score$r += vec4f(load_$BIAS(bias$r + key0 * $STEPBIAS), load_$BIAS(bias$r + key1 * $STEPBIAS), load_$BIAS(bias$r + key2 * $STEPBIAS), load_$BIAS(bias$r + key3 * $STEPBIAS));
        #end
        #if MASKED
        seen$r = seen$r & vec4<bool>(load_$MASK(mask$r + key0 * $STEPMASK), load_$MASK(mask$r + key1 * $STEPMASK), load_$MASK(mask$r + key2 * $STEPMASK), load_$MASK(mask$r + key3 * $STEPMASK));
        #end
        let peak$r = select(vec4f(-0x1.fffffep127f), score$r, seen$r);
        let more$r = max(max(most$r, peak$r.x), max(max(peak$r.y, peak$r.z), peak$r.w));
        let keep$r = exp(max(most$r - more$r, -200.0));
        let power$r = select(vec4f(), powers(peak$r - more$r), seen$r);
        total$r = total$r * keep$r + dot(power$r, vec4f(1.0));
        most$r = more$r;
        #end
        #for r in ROWS
        #for c in QUADS
        sum$r_$c *= keep$r;
        #end
        #end
        for (var j = 0; j < 4; j++) {
            let value = values + min(t + j, $T - 1) * $DOWNC;
            #for c in QUADS
            let y$c = four_v(value, quad + $c);
            #for r in ROWS
            sum$r_$c = fma(vec4f(power$r[j]), y$c, sum$r_$c);
            #end
            #end
        }
    }
    #for c in QUADS
    let same$c = of_column(4 * (quad + $c));
    #end
    // Rows follow one another in the first place: what is written once for all of them compiles sooner.
    for (var r = 0; r < min($ROWS, rows - down * $ROWS); r++) {
        let row = down * $ROWS + r;
        let place = ((batch * $G + group) * $SHARE * $S + row) * $E + 4 * quad;
        let scale = 1.0 / select(total0, 1.0, total0 == 0.0);
        #for c in QUADS
        put_row(place + 4 * $c, $E - 4 * (quad + $c), same$c, sum0_$c * scale);
        #end
        #for r in ROWS - 1
        total$r = total$(r + 1);
        #for c in QUADS
        sum$r_$c = sum$(r + 1)_$c;
        #end
        #end
    }
}
