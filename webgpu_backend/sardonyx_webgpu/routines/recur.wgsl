// All steps of a recurrent layer: a workgroup of $THREADS threads takes a sequence in one direction, a thread some units of
// it. What the inputs give to gates is [steps, directions, batch, gates * $H], weights are [directions, $H, $H, gates].

var<workgroup> hidden: array<f32, $TWICE>; // before a step, and after it
#if LSTM
var<workgroup> cell: array<f32, $H>;
#end
#if GATED
var<workgroup> gated: array<f32, $H>;
var<workgroup> update: array<f32, $H>;
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

fn state_product(old: i32, weights: i32) -> vec4f {
    var sum = vec4f();
    var k = 0;
    for (; k < $WHOLE; k += 8) {
        #for j in 8
        sum = fma(vec4f(hidden[old + k + $j]), weight(weights + (k + $j) * $H), sum);
        #end
    }
    #if RAGGED
    for (; k < $H; k++) {
        sum = fma(vec4f(hidden[old + k]), weight(weights + k * $H), sum);
    }
    #end
    return sum;
}

#if GATED
fn gated_product(weights: i32) -> f32 {
    var sum = 0.0;
    var k = 0;
    for (; k < $WHOLE; k += 8) {
        #for j in 8
        sum = fma(gated[k + $j], weight(weights + (k + $j) * $H).z, sum);
        #end
    }
    #if RAGGED
    for (; k < $H; k++) {
        sum = fma(gated[k], weight(weights + k * $H).z, sum);
    }
    #end
    return sum;
}
#end

fn unit(direction: i32, sequence: i32, thread: i32) {
    let place = (direction * $BATCH + sequence) * $H;
    let weights = direction * $SQUARE;
    let backward = $BACKWARD;
    #if LENGTHS
    let length = load_$LENGTH(sequence);
    #else
    let length = $STEPS;
    #end
    for (var u = thread; u < $H; u += $THREADS) {
        var h = 0.0;
        #if STARTH
        h = load_$HIDDEN(place + u);
        #end
        #if LENGTHS
        h = select(0.0, h, length > 0);
        #end
        hidden[u] = h;
        #if LSTM
        var c = 0.0;
        #if STARTC
        c = load_$CELL(place + u);
        #end
        #if LENGTHS
        c = select(0.0, c, length > 0);
        #end
        cell[u] = c;
        #end
    }
    workgroupBarrier();
    for (var step = 0; step < $STEPS; step++) {
        let old = (step & 1) * $H;
        let t = select(step, $STEPS - 1 - step, backward);
        let x = at_a(t, direction, sequence, 0);
        let y = ((t * $DIRECTIONS + direction) * $BATCH + sequence) * $H;
        #if GATED
        for (var u = thread; u < $H; u += $THREADS) {
            let sum = state_product(old, weights + u);
            update[u] = first(direction, load_a(x + u * $STEP) + sum.x);
            gated[u] = first(direction, load_a(x + ($H + u) * $STEP) + sum.y) * hidden[old + u];
        }
        workgroupBarrier();
        #end
        for (var u = thread; u < $H; u += $THREADS) {
            let before = hidden[old + u];
            #if RNN
            let after = first(direction, load_a(x + u * $STEP) + state_product(old, weights + u).x);
            #end
            #if GATED
            let fresh = second(direction, load_a(x + (2 * $H + u) * $STEP) + gated_product(weights + u));
            let after = fresh + update[u] * (before - fresh);
            #end
            #if LINEAR
            let sum = state_product(old, weights + u);
            let z = first(direction, load_a(x + u * $STEP) + sum.x);
            let r = first(direction, load_a(x + ($H + u) * $STEP) + sum.y);
            #if BIASED
            let added = sum.z + load_$BIAS(direction * $H + u);
            #else
            let added = sum.z;
            #end
            let fresh = second(direction, load_a(x + (2 * $H + u) * $STEP) + r * added);
            let after = fresh + z * (before - fresh);
            #end
            #if LSTM
            let sum = state_product(old, weights + u);
            var i = load_a(x + u * $STEP) + sum.x;
            var o = load_a(x + ($H + u) * $STEP) + sum.y;
            var f = load_a(x + (2 * $H + u) * $STEP) + sum.z;
            let c = cell[u];
            #if PEEPHOLES
            let peephole = 3 * $H * direction + u;
            i += load_$PEEPHOLE(peephole) * c;
            f += load_$PEEPHOLE(peephole + 2 * $H) * c;
            #end
            let into = first(direction, i);
            #if COUPLED
            let forget = 1.0 - into;
            #else
            let forget = first(direction, f);
            #end
            let fresh = forget * c + into * second(direction, load_a(x + (3 * $H + u) * $STEP) + sum.w);
            #if PEEPHOLES
            o += load_$PEEPHOLE(peephole + $H) * fresh;
            #end
            let after = first(direction, o) * third(direction, fresh);
            cell[u] = select(c, fresh, t < length);
            #end
            put(y + u, select(0.0, after, t < length));
            hidden[$H - old + u] = select(before, after, t < length);
        }
        workgroupBarrier();
    }
    for (var u = thread; u < $H; u += $THREADS) {
        put_1(place + u, hidden[($STEPS & 1) * $H + u]);
        #if LSTM
        put_2(place + u, cell[u]);
        #end
    }
}
