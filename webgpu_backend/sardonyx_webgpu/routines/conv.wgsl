// x [B, *size, C] * w [*taps, C / groups, N]: a thread makes $ROWS places of $QUADS fours of channels.
// Where the image has zeros between its elements, the places of a phase see the same taps. Where it is SPLIT, threads
// of a workgroup have parts of the sums of $BESIDE tiles side by side: some of the taps, and some of the channels.

struct Place {
    batch: i32,
    #for k in AXES
    o$k: i32,
    #end
}
#for k in AXES

// How many places a phase has along this axis.
fn extent$k() -> i32 {
    return ($(out[k]) + $(spread[k] - 1)) / $(spread[k]);
}
#end

// The place of a phase that has this number.
fn place_of(number: i32) -> Place {
    var place: Place;
    place.batch = number;
    #for j in AXES
    place.o$(AXES - 1 - j) = place.batch % extent$(AXES - 1 - j)();
    place.batch /= extent$(AXES - 1 - j)();
    #end
    return place;
}

// The row of the result that a place of a phase is; -1 where this phase has fewer places than others.
fn row_of(place: Place, $PARAMETERS) -> i32 {
    var row = place.batch;
    var is_place = true;
    #for k in AXES
    let p$k = place.o$k * $(spread[k]) + phase$k;
    is_place = is_place & (p$k < $(out[k]));
    row = row * $(out[k]) + p$k;
    #end
    return select(-1, row, is_place);
}

#if SPLIT
var<workgroup> parts: array<vec4f, $(THREADS * ROWS * QUADS)>;

fn unit(phase: i32, down: i32, beside: i32, thread: i32) {
    let across = beside * $BESIDE + thread % $BESIDE;
    let slice = thread / $BESIDE;
#else
fn unit(phase: i32, down: i32, across: i32) {
#end
    #if GROUPED
    let made = $M / ($C / $CHANNELS);
    #else
    let made = $M;
    #end
    #if MIXED
    let room = $M - 4 * across;
    let column = 4 * across;
    let b0 = min(across, $N / 4 - 1);
    #for j in 4
    let f$j = min(column + $j, $M - 1) / made * $CHANNELS;
    #end
    #else
    let tiles = (made + $(4 * QUADS - 1)) / $(4 * QUADS);
    let group = across / tiles;
    let room = made - across % tiles * $(4 * QUADS);
    let column = group * made + across % tiles * $(4 * QUADS);
    let first = min(group * $CHANNELS, $C - $CHANNELS);
    #for q in QUADS
    let b$q = min(column / 4 + $q, $N / 4 - 1);
    #end
    #end
    #for k in AXES
    let phase$k = phase / $(apart[k]) % $(spread[k]);
    #end
    let last = $BATCH * $EXTENT - 1;
    #for r in ROWS
    var place$r = place_of(min(down * $ROWS + $r, last));
    #for q in QUADS
    var sum$r_$q = vec4f();
    #end
    #end
    #for k in AXES
    for (var t$k = $(begin[k]); t$k < $(taps[k]); t$k += $(pace[k])) {
        let shift$k = phase$k + t$k * $(step[k]) - $(low[k]);
        #if spread[k] > 1
        if (shift$k / $(spread[k]) * $(spread[k]) != shift$k) { continue; }
        #end
    #end
        var row = 0;
        #for k in AXES
        row = row * $(taps[k]) + t$k;
        #end
        row *= $CHANNELS;
        #for r in ROWS
        var inside$r = true;
        var at$r = place$r.batch;
        #for k in AXES
        let i$r_$k = place$r.o$k * $(stride[k]) + shift$k / $(spread[k]);
        inside$r = inside$r & (u32(i$r_$k) < u32($(size[k])));
        at$r = at$r * $(size[k]) + i$r_$k;
        #end
        at$r = select(0, at$r * $C, inside$r);
        #end
        #if DEEP
        for (var c = 4 * $BEGIN; c < $CHANNELS; c += $(4 * PACE)) {
            #for j in 4
            #for q in QUADS
            let y$j_$q = load4_b((row + c + $j) * ($N / 4) + b$q);
            #end
            #end
            #for r in ROWS
            let x$r = select(vec4f(), load4_a((at$r + first + c) / 4), inside$r);
            #for q in QUADS
            #for j in 4
            sum$r_$q = fma(vec4f(x$r[$j]), y$j_$q, sum$r_$q);
            #end
            #end
            #end
        }
        #else
        for (var c = $BEGIN; c < $CHANNELS; c += $PACE) {
            #for q in QUADS
            let y$q = load4_b((row + c) * ($N / 4) + b$q);
            #end
            #for r in ROWS
            #if MIXED
            let x$r = vec4f(load_a(at$r + f0 + c), load_a(at$r + f1 + c), load_a(at$r + f2 + c), load_a(at$r + f3 + c));
            #else
            let x$r = vec4f(load_a(at$r + first + c));
            #end
            let seen$r = select(vec4f(), x$r, inside$r);
            #for q in QUADS
            sum$r_$q = fma(seen$r, y$q, sum$r_$q);
            #end
            #end
        }
        #end
    #for k in AXES
    }
    #end
    #if SPLIT
    #for r in ROWS
    #for q in QUADS
    parts[$(r * QUADS + q) * $THREADS + thread] = sum$r_$q;
    #end
    #end
    workgroupBarrier();
    for (var n = thread; n < $(ROWS * QUADS * BESIDE); n += $THREADS) {
        let number = n / $BESIDE;
        var total = vec4f();
        for (var k = n % $BESIDE; k < $THREADS; k += $BESIDE) {
            total += parts[number * $THREADS + k];
        }
        let tile = beside * $BESIDE + n % $BESIDE;
        #if MIXED
        let to_column = 4 * tile;
        let to_room = $M - to_column;
        #else
        let in_group = tile % tiles * $(4 * QUADS) + 4 * (number % $QUADS);
        let to_column = tile / tiles * made + in_group;
        let to_room = select(0, made - in_group, to_column < $M);
        #end
        let at = down * $ROWS + number / $QUADS;
        let to = row_of(place_of(at), $PHASES);
        if (at <= last && to >= 0) {
            put_row(to * $M + to_column, to_room, of_column(to_column), total);
        }
    }
    #else
    #for q in QUADS
    let same$q = of_column(column + $(4 * q));
    #end
    // Rows follow one another in the first place: what is written once for all of them compiles sooner.
    for (var r = 0; r < min($ROWS, last + 1 - down * $ROWS); r++) {
        let to = row_of(place0, $PHASES);
        if (to >= 0) {
            #for q in QUADS
            put_row(to * $M + column + $(4 * q), room - $(4 * q), same$q, sum0_$q);
            #end
        }
        #for r in ROWS - 1
        place$r = place$(r + 1);
        #for q in QUADS
        sum$r_$q = sum$(r + 1)_$q;
        #end
        #end
    }
    #end
}
