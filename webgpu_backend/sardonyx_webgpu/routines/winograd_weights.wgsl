// w [N, C, K] to [places, C, N]: a thread makes all places of what is between two channels.

fn unit(channel: i32, map: i32) {
    let first = (map * $C + channel) * $K;
    #for t in TAPS
    let w$t = load_a(first + $t);
    #end
    #for p in PLACES
    put(($p * $C + channel) * $N + map, $(made(p)));
    #end
}
