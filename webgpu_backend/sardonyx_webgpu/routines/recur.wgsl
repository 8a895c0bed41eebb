// All steps of a recurrent layer: a workgroup of $THREADS threads takes $ROWS sequences in one direction, a thread some units.
// What the inputs give to gates is [steps, directions, batch, gates * $H], weights are [directions, $H, $H, gates].

var<workgroup> hidden: array<f32, $PAIRS>; // of each sequence before a step, and after it
#if LSTM
var<workgroup> cell: array<f32, $ALL>;
#end
#if GATED
var<workgroup> gated: array<f32, $ALL>;
var<workgroup> update: array<f32, $ALL>;
#end

#if RNN
fn weight(at: i32) -> vec4f {
    return vec4f(load_b(at), 0.0, 0.0, 0.0);
}
#else
fn weight(at: i32) -> vec4f {
    return load4_b(at);
}
#end

fn unit(direction: i32, down: i32, thread: i32) {
    let weights = direction * $SQUARE;
    let backward = $BACKWARD;
    #for s in ROWS
    let sequence$s = min(down * $ROWS + $s, $BATCH - 1);
    let place$s = (direction * $BATCH + sequence$s) * $H;
    #if LENGTHS
    let length$s = load_$LENGTH(at_$LENGTH(sequence$s));
    #else
    let length$s = $STEPS;
    #end
    #end
    for (var u = thread; u < $H; u += $THREADS) {
        #for s in ROWS
        var h$s = 0.0;
        #if STARTH
        h$s = load_$HIDDEN(at_$HIDDEN(direction, sequence$s, u));
        #end
        #if LENGTHS
        h$s = select(0.0, h$s, length$s > 0);
        #end
        hidden[$s * $TWICE + u] = h$s;
        #if LSTM
        var c$s = 0.0;
        #if STARTC
        c$s = load_$CELL(at_$CELL(direction, sequence$s, u));
        #end
        #if LENGTHS
        c$s = select(0.0, c$s, length$s > 0);
        #end
        cell[$s * $H + u] = c$s;
        #end
        #end
    }
    workgroupBarrier();
    for (var step = 0; step < $STEPS; step++) {
        let now = (step & 1) * $H;
        let t = select(step, $STEPS - 1 - step, backward);
        #for s in ROWS
        let old$s = $s * $TWICE + now;
        let new$s = $s * $TWICE + $H - now;
        let x$s = at_a(t, direction, sequence$s, 0);
        let y$s = ((t * $BATCH + sequence$s) * $DIRECTIONS + direction) * $H;
        #end
        #if GATED
        for (var u = thread; u < $H; u += $THREADS) {
            #for s in ROWS
            var sum$s = vec4f();
            #end
            for (var k = 0; k < $WHOLE; k += 8) {
                #for j in 8
                let w$j = weight(weights + (k + $j) * $H + u);
                #for s in ROWS
                sum$s = fma(vec4f(hidden[old$s + k + $j]), w$j, sum$s);
                #end
                #end
            }
            #if RAGGED
            for (var k = $WHOLE; k < $H; k++) {
                let w = weight(weights + k * $H + u);
                #for s in ROWS
                sum$s = fma(vec4f(hidden[old$s + k]), w, sum$s);
                #end
            }
            #end
            #for s in ROWS
            update[$s * $H + u] = first(direction, load_a(x$s + u * $STEP) + sum$s.x);
            let reset$s = first(direction, load_a(x$s + ($H + u) * $STEP) + sum$s.y);
            gated[$s * $H + u] = reset$s * hidden[old$s + u];
            #end
        }
        workgroupBarrier();
        #end
        for (var u = thread; u < $H; u += $THREADS) {
            #if GATED
            #for s in ROWS
            var sum$s = 0.0;
            #end
            for (var k = 0; k < $WHOLE; k += 8) {
                #for j in 8
                let w$j = weight(weights + (k + $j) * $H + u).z;
                #for s in ROWS
                sum$s = fma(gated[$s * $H + k + $j], w$j, sum$s);
                #end
                #end
            }
            #if RAGGED
            for (var k = $WHOLE; k < $H; k++) {
                let w = weight(weights + k * $H + u).z;
                #for s in ROWS
                sum$s = fma(gated[$s * $H + k], w, sum$s);
                #end
            }
            #end
            #else
            #for s in ROWS
            var sum$s = vec4f();
            #end
            for (var k = 0; k < $WHOLE; k += 8) {
                #for j in 8
                let w$j = weight(weights + (k + $j) * $H + u);
                #for s in ROWS
                sum$s = fma(vec4f(hidden[old$s + k + $j]), w$j, sum$s);
                #end
                #end
            }
            #if RAGGED
            for (var k = $WHOLE; k < $H; k++) {
                let w = weight(weights + k * $H + u);
                #for s in ROWS
                sum$s = fma(vec4f(hidden[old$s + k]), w, sum$s);
                #end
            }
            #end
            #end
            #for s in ROWS
            {
                let x = x$s + u * $STEP;
                let before = hidden[old$s + u];
                let inside = t < length$s;
                #if RNN
                let after = first(direction, load_a(x) + sum$s.x);
                #end
                #if GATED
                let fresh = second(direction, load_a(x + 2 * $H * $STEP) + sum$s);
                let after = fresh + update[$s * $H + u] * (before - fresh);
                #end
                #if LINEAR
                let z = first(direction, load_a(x) + sum$s.x);
                let r = first(direction, load_a(x + $H * $STEP) + sum$s.y);
                #if BIASED
                let added = sum$s.z + load_$BIAS(at_$BIAS(direction, u));
                #else
                let added = sum$s.z;
                #end
                let fresh = second(direction, load_a(x + 2 * $H * $STEP) + r * added);
                let after = fresh + z * (before - fresh);
                #end
                #if LSTM
                var i = load_a(x) + sum$s.x;
                var o = load_a(x + $H * $STEP) + sum$s.y;
                var f = load_a(x + 2 * $H * $STEP) + sum$s.z;
                let c = cell[$s * $H + u];
                #if PEEPHOLES
                i += load_$PEEPHOLE(at_$PEEPHOLE(direction, u)) * c;
                f += load_$PEEPHOLE(at_$PEEPHOLE(direction, 2 * $H + u)) * c;
                #end
                let into = first(direction, i);
                #if COUPLED
                let forget = 1.0 - into;
                #else
                let forget = first(direction, f);
                #end
                let fresh = forget * c + into * second(direction, load_a(x + 3 * $H * $STEP) + sum$s.w);
                #if PEEPHOLES
                o += load_$PEEPHOLE(at_$PEEPHOLE(direction, $H + u)) * fresh;
                #end
                let after = first(direction, o) * third(direction, fresh);
                cell[$s * $H + u] = select(c, fresh, inside);
                #end
                put(y$s + u, select(0.0, after, inside));
                hidden[new$s + u] = select(before, after, inside);
            }
            #end
        }
        workgroupBarrier();
    }
    for (var u = thread; u < $H; u += $THREADS) {
        #for s in ROWS
        put_b(place$s + u, hidden[$s * $TWICE + ($STEPS & 1) * $H + u]);
        #if LSTM
        put_c(place$s + u, cell[$s * $H + u]);
        #end
        #end
    }
}
