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

#if GATED
fn set_gates(s: i32, direction: i32, u: i32, old: i32, row: i32, sum: vec4f) {
    if (u < $H) {
        update[s * $H + u] = first(direction, load_a(row + u * $STEP) + sum.x);
        let reset = first(direction, load_a(row + ($H + u) * $STEP) + sum.y);
        gated[s * $H + u] = reset * hidden[old + u];
    }
}

fn advance(s: i32, direction: i32, u: i32, old: i32, next: i32, row: i32, y: i32, inside: bool, sum: f32) {
#else
fn advance(s: i32, direction: i32, u: i32, old: i32, next: i32, row: i32, y: i32, inside: bool, sum: vec4f) {
#end
    if (u >= $H) {
        return;
    }
    let x = row + u * $STEP;
    let before = hidden[old + u];
    #if RNN
    let after = first(direction, load_a(x) + sum.x);
    #end
    #if GATED
    let fresh = second(direction, load_a(x + 2 * $H * $STEP) + sum);
    let after = fresh + update[s * $H + u] * (before - fresh);
    #end
    #if LINEAR
    let z = first(direction, load_a(x) + sum.x);
    let r = first(direction, load_a(x + $H * $STEP) + sum.y);
    #if BIASED
    let added = sum.z + load_$BIAS(at_$BIAS(direction, u));
    #else
    let added = sum.z;
    #end
    let fresh = second(direction, load_a(x + 2 * $H * $STEP) + r * added);
    let after = fresh + z * (before - fresh);
    #end
    #if LSTM
    var i = load_a(x) + sum.x;
    var o = load_a(x + $H * $STEP) + sum.y;
    var f = load_a(x + 2 * $H * $STEP) + sum.z;
    let c = cell[s * $H + u];
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
    let fresh = forget * c + into * second(direction, load_a(x + 3 * $H * $STEP) + sum.w);
    #if PEEPHOLES
    o += load_$PEEPHOLE(at_$PEEPHOLE(direction, $H + u)) * fresh;
    #end
    let after = first(direction, o) * third(direction, fresh);
    cell[s * $H + u] = select(c, fresh, inside);
    #end
    put(y + u, select(0.0, after, inside));
    hidden[next + u] = select(before, after, inside);
}

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
        let next$s = $s * $TWICE + $H - now;
        let x$s = at_a(t, direction, sequence$s, 0);
        let y$s = ((t * $BATCH + sequence$s) * $DIRECTIONS + direction) * $H;
        #end
        #if GATED
        for (var u = thread; u < $H; u += $UNITS * $THREADS) {
            #for n in UNITS
            let w$n = weights + min(u + $n * $THREADS, $H - 1);
            #for s in ROWS
            var sum$s_$n = vec4f();
            #end
            #end
            for (var k = 0; k < $WHOLE; k += 4) {
                #for j in 4
                #for s in ROWS
                let h$j_$s = vec4f(hidden[old$s + k + $j]);
                #end
                #for n in UNITS
                let w$j_$n = weight(w$n + (k + $j) * $H);
                #for s in ROWS
                sum$s_$n = fma(h$j_$s, w$j_$n, sum$s_$n);
                #end
                #end
                #end
            }
            #if RAGGED
            for (var k = $WHOLE; k < $H; k++) {
                #for n in UNITS
                #for s in ROWS
                sum$s_$n = fma(vec4f(hidden[old$s + k]), weight(w$n + k * $H), sum$s_$n);
                #end
                #end
            }
            #end
            #for n in UNITS
            #for s in ROWS
            set_gates($s, direction, u + $n * $THREADS, old$s, x$s, sum$s_$n);
            #end
            #end
        }
        workgroupBarrier();
        #end
        for (var u = thread; u < $H; u += $UNITS * $THREADS) {
            #if GATED
            #for n in UNITS
            let w$n = weights + min(u + $n * $THREADS, $H - 1);
            #for s in ROWS
            var sum$s_$n = 0.0;
            #end
            #end
            for (var k = 0; k < $WHOLE; k += 4) {
                #for j in 4
                #for s in ROWS
                let h$j_$s = gated[$s * $H + k + $j];
                #end
                #for n in UNITS
                let w$j_$n = weight(w$n + (k + $j) * $H).z;
                #for s in ROWS
                sum$s_$n = fma(h$j_$s, w$j_$n, sum$s_$n);
                #end
                #end
                #end
            }
            #if RAGGED
            for (var k = $WHOLE; k < $H; k++) {
                #for n in UNITS
                #for s in ROWS
                sum$s_$n = fma(gated[$s * $H + k], weight(w$n + k * $H).z, sum$s_$n);
                #end
                #end
            }
            #end
            #else
            #for n in UNITS
            let w$n = weights + min(u + $n * $THREADS, $H - 1);
            #for s in ROWS
            var sum$s_$n = vec4f();
            #end
            #end
            for (var k = 0; k < $WHOLE; k += 4) {
                #for j in 4
                #for s in ROWS
                let h$j_$s = vec4f(hidden[old$s + k + $j]);
                #end
                #for n in UNITS
                let w$j_$n = weight(w$n + (k + $j) * $H);
                #for s in ROWS
                sum$s_$n = fma(h$j_$s, w$j_$n, sum$s_$n);
                #end
                #end
                #end
            }
            #if RAGGED
            for (var k = $WHOLE; k < $H; k++) {
                #for n in UNITS
                #for s in ROWS
                sum$s_$n = fma(vec4f(hidden[old$s + k]), weight(w$n + k * $H), sum$s_$n);
                #end
                #end
            }
            #end
            #end
            #for n in UNITS
            #for s in ROWS
            advance($s, direction, u + $n * $THREADS, old$s, next$s, x$s, y$s, t < length$s, sum$s_$n);
            #end
            #end
        }
        workgroupBarrier();
    }
    for (var u = thread; u < $H; u += $THREADS) {
        #for s in ROWS
        put_1(place$s + u, hidden[$s * $TWICE + ($STEPS & 1) * $H + u]);
        #if LSTM
        put_2(place$s + u, cell[$s * $H + u]);
        #end
        #end
    }
}
