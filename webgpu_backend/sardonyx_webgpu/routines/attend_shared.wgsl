// q [B, H, S, D], k [B, G, T, D], v [B, G, T, E]: $THREADS threads make $ROWS rows of the queries of all heads that share
// keys. Each multiplies a key at a time with all of the rows, then some of the values with what all have found.

var<workgroup> queries: array<vec4f, $(ROWS * DEPTH)>;
var<workgroup> scores: array<f32, $(ROWS * THREADS)>; // then weights, and at last the sums of weights
var<workgroup> parts: array<vec4f, $(ROWS * THREADS)>;

#include FOURS
// What is not a number stays, by its bits: compilers make a maximum, which drops it, of comparisons.
fn power(x: f32) -> f32 {
    return select(exp(max(x, -200.0)), x, is_nan(x));
}

fn unit(batch: i32, group: i32, down: i32, thread: i32) {
    let rows = $SHARE * $S;
    let keys = at_b(batch, group, 0, 0);
    let values = at_c(batch, group, 0, 0);
    let quad = thread % $WIDE;
    let slice = thread / $WIDE;
    for (var n = thread; n < $(ROWS * DEPTH); n += $THREADS) {
        let row = min(down * $ROWS + n / $DEPTH, rows - 1);
        queries[n] = four_q(at_a(batch, group * $SHARE + row / $S, row % $S, 0), n % $DEPTH);
    }
    #include LINES
    #for r in ROWS
    var most$r = -0x1.fffffep127f;
    var total$r = 0.0;
    var sum$r = vec4f();
    #end
    workgroupBarrier();
    for (var start = 0; start < last; start += $THREADS) {
        let key = min(start + thread, $T - 1);
        let b = keys + key * $DOWNB;
        #for r in ROWS
        var score$r = 0.0;
        #end
        for (var d = 0; d < $DEPTH; d++) {
            let y = four_k(b, d);
            #for r in ROWS
            score$r += dot(queries[$r * $DEPTH + d], y);
            #end
        }
        #for r in ROWS
        var seen$r = start + thread < end$r;
        #if BIASED
        score$r += load_$BIAS(bias$r + key * $STEPBIAS);
        #end
        #if MASKED
        seen$r = seen$r & load_$MASK(mask$r + key * $STEPMASK);
        #end
        scores[$r * $THREADS + thread] = select(-0x1.fffffep127f, score$r, seen$r);
        var more$r = most$r;
        #end
        workgroupBarrier();
        for (var j = 0; j < $THREADS; j++) {
            #for r in ROWS
            more$r = max(more$r, scores[$r * $THREADS + j]);
            #end
        }
        workgroupBarrier();
        #for r in ROWS
        scores[$r * $THREADS + thread] = select(0.0, power(score$r - more$r), seen$r);
        let keep$r = exp(max(most$r - more$r, -200.0));
        total$r *= keep$r;
        sum$r *= keep$r;
        most$r = more$r;
        #end
        workgroupBarrier();
        for (var j = select($THREADS, slice, slice < $SLICES); j < min($THREADS, last - start); j += $SLICES) {
            let y = four_v(values + min(start + j, $T - 1) * $DOWNC, quad);
            #for r in ROWS
            let weight$r = scores[$r * $THREADS + j];
            total$r += weight$r;
            sum$r = fma(vec4f(weight$r), y, sum$r);
            #end
        }
        workgroupBarrier();
    }
    #for r in ROWS
    scores[$r * $THREADS + thread] = total$r;
    parts[$r * $THREADS + thread] = sum$r;
    #end
    workgroupBarrier();
    for (var n = thread; n < $(ROWS * WIDE); n += $THREADS) {
        let row = down * $ROWS + n / $WIDE;
        let column = 4 * (n % $WIDE);
        var total = 0.0;
        var sum = vec4f();
        for (var k = 0; k < $SLICES; k++) {
            let place = n / $WIDE * $THREADS + k * $WIDE + n % $WIDE;
            total += scores[place];
            sum += parts[place];
        }
        if (row < rows) {
            let place = ((batch * $G + group) * rows + row) * $E + column;
            put_row(place, $E - column, of_column(column), sum * (1.0 / select(total, 1.0, total == 0.0)));
        }
    }
}
