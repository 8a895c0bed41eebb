// All steps of a recurrent layer: a workgroup of $THREADS threads takes $ROWS sequences in one direction, a thread some units.
// What the inputs give to gates is [steps, directions, batch, gates * $H].

// For each sequence the state before a step, that after it, and what a reset leaves of it, or rounding.
var<workgroup> hidden: array<f32, $SLOTS>;
#if LSTM
var<workgroup> cell: array<f32, $ALL>;
#end
#if GATED
var<workgroup> update: array<f32, $ALL>;
#end
#if ROUNDED
// The least and the largest of the units that each thread has, and what a state's integers are multiplied by.
var<workgroup> extremes: array<vec2f, $BUSY>;
var<private> scale: f32;
#end

#if GATED
fn set_gates(s: i32, direction: i32, u: i32, old: i32, row: i32, sum: vec2f) {
    if (u < $H) {
        update[s * $H + u] = first(direction, load_a(row + u * $STEP) + sum.x);
        let reset = first(direction, load_a(row + ($H + u) * $STEP) + sum.y);
        hidden[s * $SLOT + 2 * $H + u] = reset * hidden[old + u];
    }
}

#end
#if units[PHASES - 1] > 1
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
    let after = first(direction, load_a(x) + sum);
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
    #if ROUNDED
    #for j in 4
    #if COLUMNS
    let scale$j = load_$SCALE(at_$SCALE(direction, $j * $H + u));
    #else
    let scale$j = load_$SCALE(at_$SCALE(direction, 0));
    #end
    #end
    let part = sum * (scale * vec4f(scale0, scale1, scale2, scale3));
    #else
    let part = sum;
    #end
    var i = load_a(x) + part.x;
    var o = load_a(x + $H * $STEP) + part.y;
    var f = load_a(x + 2 * $H * $STEP) + part.z;
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
    let fresh = forget * c + into * second(direction, load_a(x + 3 * $H * $STEP) + part.w);
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
    let weights = direction * $SIZE;
    let backward = $BACKWARD;
    let count = select($COUNT, $STEPS, $COUNT == 0);
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
        #if LSTM
        var c$s = 0.0;
        #end
        if ($FIRST > 0) {
            h$s = made_1(place$s + u);
            #if LSTM
            c$s = made_2(place$s + u);
            #end
        #if LENGTHS and not ROUNDED
        } else if (length$s > 0) {
        #else
        } else {
        #end
            #if STARTH
            h$s = load_$HIDDEN(at_$HIDDEN(direction, sequence$s, u));
            #end
            #if STARTC
            c$s = load_$CELL(at_$CELL(direction, sequence$s, u));
            #end
        }
        hidden[$s * $SLOT + u] = h$s;
        #if LSTM
        cell[$s * $H + u] = c$s;
        #end
        #end
    }
    workgroupBarrier();
    for (var step = 0; step < count; step++) {
        let now = (step & 1) * $H;
        let t = select($FIRST + step, $STEPS - 1 - $FIRST - step, backward);
        #for s in ROWS
        let old$s = $s * $SLOT + now;
        let next$s = $s * $SLOT + $H - now;
        let x$s = at_a(t, direction, sequence$s, 0);
        let y$s = ((t * $BATCH + sequence$s) * $DIRECTIONS + direction) * $H;
        #end
        #if ROUNDED
        var low = 0.0;
        var high = 0.0;
        for (var u = thread; u < $H; u += $THREADS) {
            #for s in ROWS
            #if LENGTHS
            let shown$s = select(0.0, hidden[old$s + u], t <= length$s);
            #else
            let shown$s = hidden[old$s + u];
            #end
            hidden[$(s * SLOT + 2 * H) + u] = shown$s;
            low = min(low, shown$s);
            high = max(high, shown$s);
            #end
        }
        if (thread < $BUSY) {
            extremes[thread] = vec2f(low, high);
        }
        workgroupBarrier();
        for (var k = 0; k < $BUSY; k++) {
            low = min(low, extremes[k].x);
            high = max(high, extremes[k].y);
        }
        scale = max((high - low) / 255.0, $TINY);
        let zero = round(-low / scale);
        for (var u = thread; u < $H; u += $THREADS) {
            #for s in ROWS
            let whole$s = round(hidden[$(s * SLOT + 2 * H) + u] / scale) + zero;
            hidden[$(s * SLOT + 2 * H) + u] = clamp(whole$s, 0.0, 255.0) - zero;
            #end
        }
        workgroupBarrier();
        #end
        #for p in PHASES
        for (var group = thread; group < $(groups[p]); group += $(taken[p] * THREADS)) {
            #for s in ROWS
            #if p == 0 and not ROUNDED
            let from$s = old$s;
            #else
            let from$s = $(s * SLOT + 2 * H);
            #end
            #end
            #for n in taken[p]
            let w$n = weights + $(begin[p]) + min(group + $(n * THREADS), $(groups[p] - 1));
            #for s in ROWS
            var sum$s_$n = vec4f();
            #end
            #end
            for (var k = 0; k < $WHOLE; k += 4) {
                #for j in 4
                #for s in ROWS
                let h$j_$s = vec4f(hidden[from$s + k + $j]);
                #end
                #for n in taken[p]
                let w$j_$n = load4_b(w$n + (k + $j) * $(groups[p]));
                #for s in ROWS
                sum$s_$n = fma(h$j_$s, w$j_$n, sum$s_$n);
                #end
                #end
                #end
            }
            #if RAGGED
            for (var k = $WHOLE; k < $H; k++) {
                #for n in taken[p]
                #for s in ROWS
                sum$s_$n = fma(vec4f(hidden[from$s + k]), load4_b(w$n + k * $(groups[p])), sum$s_$n);
                #end
                #end
            }
            #end
            #for n in taken[p]
            #for i in units[p]
            let u$n_$i = (group + $(n * THREADS)) * $(units[p]) + $i;
            #for s in ROWS
            #if p + 1 < PHASES
            set_gates($s, direction, u$n_$i, old$s, x$s, $(part(units[p], i, s, n)));
            #else
            advance($s, direction, u$n_$i, old$s, next$s, x$s, y$s, t < length$s, $(part(units[p], i, s, n)));
            #end
            #end
            #end
            #end
        }
        workgroupBarrier();
        #end
    }
    for (var u = thread; u < $H; u += $THREADS) {
        #for s in ROWS
        #if LENGTHS and ROUNDED
        // What a sequence without steps begins with has a part in the scale until the last step.
        if (length$s <= 0 && $FIRST + count >= $STEPS) {
            hidden[$s * $SLOT + (count & 1) * $H + u] = 0.0;
            cell[$s * $H + u] = 0.0;
        }
        #end
        put_1(place$s + u, hidden[$s * $SLOT + (count & 1) * $H + u]);
        #if LSTM
        put_2(place$s + u, cell[$s * $H + u]);
        #end
        #end
    }
}
