import Ocr from "@gutenye/ocr-browser";

globalThis.answer = async (detectionPath, recognitionPath, dictionaryPath, picture) => {
  const reader = await Ocr.create({ models: { detectionPath, recognitionPath, dictionaryPath } });
  return (await reader.detect(picture)).map(({ text }) => text);
};
