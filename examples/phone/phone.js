/** A camera and what it sees: in a browser, installed, or in a WebView. */

import { load } from "./sardonyx/runtime.js";
import { mark, watch } from "./sardonyx/vision.js";

const [video, marks, welcome, camera, stop, status, rate, problem] = [
  "video", "marks", "welcome", "camera", "stop", "status", "rate", "problem",
].map((id) => document.getElementById(id));
const REFUSALS = {
  NotAllowedError: "The camera was refused. Allow it for this page in the browser’s settings.",
  NotFoundError: "No camera was found.",
  NotReadableError: "The camera is in use by another program.",
};
const TIMES = 30;

let loading = null;
let ending = null;

async function start() {
  ending = new AbortController();
  const { signal } = ending;
  problem.textContent = "";
  try {
    if (!navigator.mediaDevices) throw new Error("Pages see a camera only by https.");
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 640 } } });
    signal.addEventListener("abort", () => stream.getTracks().forEach((track) => track.stop()));
    video.srcObject = stream;
    await video.play();
    welcome.hidden = true;
    stop.hidden = false;
    status.textContent = "Loading the network";
    loading ??= load("shapes.sdx");
    loading.catch(() => (loading = null));
    const session = await loading;
    const times = [];
    for await (const seen of watch(session, video, { signal })) {
      mark(marks, seen);
      times.push(performance.now());
      const words = [...new Set(seen.found.map(({ label }) => label))].join(", ") || "No shape yet";
      if (status.textContent !== words) status.textContent = words;
      if (times.length <= TIMES) continue;
      rate.textContent = `${Math.round((1000 * TIMES) / (times.at(-1) - times[0]))} a second`;
      times.length = 0;
    }
  } catch (error) {
    problem.textContent = REFUSALS[error.name] ?? error.message;
  } finally {
    end();
  }
}

function end() {
  ending?.abort();
  ending = null;
  welcome.hidden = false;
  stop.hidden = true;
  status.textContent = rate.textContent = "";
  marks.getContext("2d").clearRect(0, 0, marks.width, marks.height);
}

camera.onclick = start;
stop.onclick = end;
document.addEventListener("visibilitychange", () => document.hidden && ending && end()); // which frees the camera
navigator.serviceWorker?.register("sw.js").catch(({ message }) => console.info(`not kept for later: ${message}`)); // in WebViews
