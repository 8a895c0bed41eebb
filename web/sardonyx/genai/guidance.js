/**
 * A grammar that a text keeps to: a JSON schema, any JSON, or a regular expression, by the package
 * `@mlc-ai/web-xgrammar`, which is loaded when the first request asks for one.
 */

import { forbid } from "./sampling.js";

const PACKAGE = "@mlc-ai/web-xgrammar";
const LOWEST = -3.4028234663852886e38;

/** What is wrong with a `response_format`, in words; nothing where it can be followed. */
export function refusal({ type, json_schema, pattern }) {
  if (type === "text" || type === "json_object") return "";
  if (type === "json_schema") return typeof json_schema?.schema === "object" ? "" : "response_format.json_schema has no schema";
  if (type === "regex") return typeof pattern === "string" ? "" : "response_format.pattern is no text";
  return `response_format ${type} is not there; it is text, json_object, json_schema or regex`;
}

/** The grammars for the tokens of one model. */
export class Grammars {
  /** `told` is what `tokenizer.json` has, `eos` are the tokens that end a text, `xgrammar` imports the package. */
  static async of(told, tokenizer, eos, xgrammar = imported) {
    const module = await xgrammar();
    const { GrammarCompiler, GrammarMatcher, TokenizerInfo } = module.TokenizerInfo ? module : module.default ?? globalThis.xgrammar; // a script of older kind names itself there
    const words = Array.from(tokenizer.model.vocab, (word) => word ?? "");
    const steps = [told.decoder, ...(told.decoder?.decoders ?? [])].map((step) => step?.type);
    const kind = steps.includes("ByteLevel") ? "byte_level" : steps.includes("ByteFallback") ? "byte_fallback" : "raw";
    const info = await TokenizerInfo.createTokenizerInfo(words, kind, false, words.length, eos);
    const special = tokenizer.all_special_ids.filter((token) => !eos.includes(token));
    return new Grammars(await GrammarCompiler.createGrammarCompiler(info), GrammarMatcher, special);
  }

  /** `special` are tokens that no text has. */
  constructor(compiler, matcher, special) {
    this.compiler = compiler;
    this.matcher = matcher;
    this.special = special;
  }

  /** The guide of a text in a `response_format`; null where it is any text. */
  async guide({ type, json_schema, pattern }) {
    if (type === "text") return null;
    const { compiler } = this;
    let grammar;
    try {
      if (type === "json_object") grammar = await compiler.compileBuiltinJSONGrammar();
      else if (type === "json_schema") grammar = await compiler.compileJSONSchema(JSON.stringify(json_schema.schema), true, -1, undefined, json_schema.strict ?? false, 2);
      else grammar = await compiler.compileStructuralTag({ type: "structural_tag", format: { type: "regex", pattern } });
    } catch (error) {
      throw new Error(`the response_format cannot be followed: ${error.message ?? error}`);
    }
    return new Guide(await this.matcher.createGrammarMatcher(grammar), grammar, this.special);
  }
}

class Guide {
  constructor(matcher, grammar, special) {
    this.matcher = matcher;
    this.grammar = grammar;
    this.special = special;
  }

  /** Rule out, in the logits, the tokens that must not come next. */
  async restrict(logits) {
    const bits = await this.matcher.getNextTokenBitmask();
    for (let token = 0; token < logits.length; token++) {
      if (!((bits[token >> 5] >> (token & 31)) & 1)) logits[token] = LOWEST;
    }
    forbid(logits, this.special);
  }

  /** Go on after a token. */
  accept(token) {
    if (!this.matcher.acceptToken(token)) throw new Error(`the grammar cannot be followed: token ${token} must not come next`);
  }

  release() {
    this.matcher.dispose();
    this.grammar.dispose();
  }
}

/** The package from the page's import map: a bundler would look for it wherever no request ever asks for it. */
async function imported() {
  try {
    return await import(/* webpackIgnore: true */ /* @vite-ignore */ PACKAGE);
  } catch (error) {
    throw new Error(`a response_format wants ${PACKAGE}, which cannot be imported (${error.message}); name it in the page's import map, or give it: load(folder, { xgrammar: () => import("${PACKAGE}") })`);
  }
}
