/** Sounds that are played, and given to who listens as a microphone's would be. */

const NOTES = [88, 88, 89, 91, 91, 89, 88, 86, 84, 84, 86, 88, 88, 86, 86]; // of Beethoven's ninth, high above voices
const BEAT = 0.42; // seconds
const PARTIALS = [[1, 0.25], [2.76, 0.12], [5.4, 0.07]]; // of a bar of steel: multiples of its note, and how loud

/** The sound of a file. */
export async function sample(context, bytes) {
  const buffer = await context.decodeAudioData(bytes.slice().buffer);
  const source = new AudioBufferSourceNode(context, { buffer });
  const stream = played(context, source);
  source.start();
  return { stream, ended: over(source) };
}

/** A music box. */
export async function melody(context) {
  const volume = new GainNode(context, { gain: 0 });
  const bars = PARTIALS.map(([multiple, gain]) => {
    const bar = new OscillatorNode(context);
    bar.connect(new GainNode(context, { gain })).connect(volume);
    return [bar, multiple];
  });
  const start = context.currentTime + 0.1;
  NOTES.forEach((note, k) => {
    const at = start + k * BEAT;
    bars.forEach(([{ frequency }, multiple]) => frequency.setValueAtTime(multiple * 440 * 2 ** ((note - 69) / 12), at));
    volume.gain.setValueAtTime(0.001, at);
    volume.gain.linearRampToValueAtTime(1, at + 0.005);
    volume.gain.exponentialRampToValueAtTime(0.08, at + 0.95 * BEAT);
  });
  const stream = played(context, volume);
  bars.forEach(([bar]) => (bar.start(), bar.stop(start + NOTES.length * BEAT)));
  return { stream, ended: over(bars[0][0]) };
}

function played(context, last) {
  const target = new MediaStreamAudioDestinationNode(context);
  last.connect(target);
  last.connect(context.destination);
  return target.stream;
}

const over = (source) => new Promise((resolve) => (source.onended = resolve));
