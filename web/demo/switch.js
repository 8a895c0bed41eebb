/** The choice between WebAssembly and WebGPU. */

import { element } from "./text.js";

const NAMES = { wasm: "WASM", webgpu: "WebGPU" };

export class Switch {
  /** Fill a fieldset; `onchange` hears of what is chosen. */
  constructor(fieldset) {
    const { name } = fieldset.dataset;
    this.reason = element("p.reason", { id: `${name}-reason`, hidden: true });
    this.inputs = {};
    for (const [target, title] of Object.entries(NAMES)) {
      const id = `${name}-${target}`;
      const input = element("input", { type: "radio", name, value: target, id, checked: target === "wasm" });
      input.onchange = () => this.onchange?.(target);
      this.inputs[target] = input;
      fieldset.append(input, element("label", { htmlFor: id }, title));
    }
    fieldset.after(this.reason);
    absence().then((reason) => reason && this.refuse("webgpu", reason));
  }

  get chosen() {
    return Object.keys(this.inputs).find((target) => this.inputs[target].checked);
  }

  /** Grey a target, and say why; the other one is chosen. */
  refuse(target, reason) {
    const input = this.inputs[target];
    input.disabled = true;
    input.setAttribute("aria-describedby", this.reason.id);
    this.reason.textContent = `No ${NAMES[target]}: ${reason}`;
    this.reason.hidden = false;
    if (input.checked) Object.values(this.inputs).find((other) => other !== input).click();
  }
}

/** Why there is no WebGPU, "" where there is. */
async function absence() {
  if (!isSecureContext) return "the page came neither by https nor from this machine.";
  if (!navigator.gpu) return "this browser does not have it.";
  const adapter = await navigator.gpu.requestAdapter().catch(() => null);
  return adapter ? "" : "the browser finds no graphics processor here.";
}
