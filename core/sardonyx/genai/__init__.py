"""Text from models that write it, with onnxruntime-genai's names: tokens, searches, grammars; not how a network is run.

    from sardonyx import genai

    model = genai.Model("smollm2")  # a folder with genai_config.json or config.json, or the file of a decoder
    tokenizer = genai.Tokenizer(model)
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=200)
    generator = genai.Generator(model, params)
    generator.append_tokens(tokenizer.encode("The capital of France is"))
    stream = tokenizer.create_stream()
    while not generator.is_done():
        generator.generate_next_token()
        print(stream.decode(generator.get_next_tokens()[0]), end="", flush=True)

A `Generator` owns the sequences, the search that continues them, and a `Decoder`, which alone knows what a network
remembers from run to run. `ports.py` says what the inputs of a network are for. Tokenizers, templates and grammars need
the packages of the extra `genai`; tokens do without.
"""

from __future__ import annotations

from sardonyx.genai.absent import (
    Adapters,
    Audios,
    Engine,
    EngineCapabilities,
    EngineErrorCode,
    EngineEvent,
    EngineEventBuffer,
    EngineEventFlags,
    FinishReason,
    Images,
    MtpGenerator,
    MultiModalProcessor,
    Request,
    RequestOptions,
    StreamingProcessor,
    TurnOptions,
    TurnUsage,
)
from sardonyx.genai.config import Config
from sardonyx.genai.environment import (
    disable_telemetry_events,
    enable_telemetry_events,
    get_current_gpu_device_id,
    is_cuda_available,
    is_dml_available,
    is_openvino_available,
    is_qnn_available,
    is_webgpu_available,
    register_execution_provider_library,
    set_current_gpu_device_id,
    set_log_callback,
    set_log_options,
    unregister_execution_provider_library,
)
from sardonyx.genai.generator import Generator
from sardonyx.genai.generator_params import GeneratorParams
from sardonyx.genai.model import Model
from sardonyx.genai.tensor import NamedTensors, Tensor
from sardonyx.genai.token_stream import TokenizerStream
from sardonyx.genai.tokenizer import Tokenizer

__all__ = [
    "Adapters",
    "Audios",
    "Config",
    "Engine",
    "EngineCapabilities",
    "EngineErrorCode",
    "EngineEvent",
    "EngineEventBuffer",
    "EngineEventFlags",
    "FinishReason",
    "Generator",
    "GeneratorParams",
    "Images",
    "Model",
    "MtpGenerator",
    "MultiModalProcessor",
    "NamedTensors",
    "Request",
    "RequestOptions",
    "StreamingProcessor",
    "Tensor",
    "Tokenizer",
    "TokenizerStream",
    "TurnOptions",
    "TurnUsage",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_current_gpu_device_id",
    "is_cuda_available",
    "is_dml_available",
    "is_openvino_available",
    "is_qnn_available",
    "is_webgpu_available",
    "register_execution_provider_library",
    "set_current_gpu_device_id",
    "set_log_callback",
    "set_log_options",
    "unregister_execution_provider_library",
]
