/** The demonstration: a digit that is drawn, and models that are dropped. */

import { Digits } from "./digits.js";
import { Models } from "./models.js";
import { Switch } from "./switch.js";

const named = (id) => document.getElementById(id);
const [first, second] = document.querySelectorAll(".switch");

new Digits(named("digits"), new Switch(first)).start();
new Models(named("models"), new Switch(second)).start();
