"""Recognise model directories in forms that are not read, and say what to do with each.

A form is recognised by names of files and by settings of config.json. No weights are opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import JsonValue

from audit.errors import AuditError
from audit.models.architectures import SUPPORTED_KINDS, guess_kind, list_model_classes
from audit.models.model_folder import INDEX_FILE, SINGLE_FILE, ModelFolder, make_printable

_ANOTHER_FORM = "Get the model as transformers saves it: config.json and model.safetensors."
_ORIGINAL_MODEL = "Use the model that it was exported from, as save_pretrained wrote it."

# Files that a training leaves beside the weights; they are never opened.
_TRAINING_STATES = (
    "optimizer.*",
    "scheduler.*",
    "scaler.*",
    "rng_state*",
    "random_states*",
    "training_args.*",
)


@dataclass(frozen=True)
class OtherForm:
    """A form of model directory that is refused, and the two sentences of its refusal.

    `patterns` match names of files, and of directories with a slash behind them. A convertible form
    is one that `models convert` reads; `is_refused_beside_weights` says whether it is also refused
    if there is a model.safetensors.
    """

    patterns: tuple[str, ...]
    cause: str
    advice: str
    is_convertible: bool = False
    is_refused_beside_weights: bool = False

    def fits(self, entries: Iterable[str]) -> bool:
        """Whether one of a directory's entries has a name of this form."""
        return any(fnmatchcase(entry, pattern) for entry in entries for pattern in self.patterns)

    def refuse(self, folder: ModelFolder, *, options: str = "") -> None:
        """Refuse a directory of this form; `options` are those that `models convert` needs."""
        folders = [name.removesuffix("/") for name in folder.entries if name.endswith("/")]
        raise AuditError(
            self.cause,
            where=folder.name,
            do=self.advice,
            folders=", ".join(map(make_printable, folders[:5])),
            options=options,
        )


OTHER_FORMS = (
    OtherForm(
        ("adapter_config.json", "adapter_model.*"),
        "The directory holds an adapter (LoRA or another kind of PEFT), which is not a whole "
        "model.",
        "Choose it as the hospital's model, and the model that it was trained on as the general "
        "one. If a whole model lies beside it, move the adapter into a directory of its own.",
        is_refused_beside_weights=True,
    ),
    OtherForm(
        ("*.gguf", "ggml-*.bin"),
        "The weights are in the format of llama.cpp (GGUF).",
        _ANOTHER_FORM,
    ),
    OtherForm(
        ("[0-9]_*/",),
        "This is a sentence-transformers model, which turns sentences into vectors. It was saved "
        "without a masked-language-model head.",
        "Audit the masked language model that its training started from. The result does not "
        "cover that training.",
    ),
    OtherForm(
        ("model-*-of-*.safetensors",),
        "The weights are split into several files (shards), and their index is missing.",
        "Copy model.safetensors.index.json from where the model was saved.",
    ),
    OtherForm(
        ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin"),
        "The weights exist only as pytorch_model.bin, a format that can run code.",
        "Convert them, in a process that can use no network, program or other file: `python -m "
        "audit models convert FOLDER --out NEW_FOLDER{options}`.",
        is_convertible=True,
    ),
    OtherForm(
        ("*.safetensors",),
        "The file of the weights is not called model.safetensors.",
        "If it holds the weights of this model and nothing else, rename it to model.safetensors.",
    ),
    OtherForm(
        ("tf_model.h5", "tf_model-*-of-*.h5"),
        "The weights exist only in the format of TensorFlow 2 (tf_model.h5).",
        "On a machine with TensorFlow and transformers 4, load the model as ...ForMaskedLM with "
        "from_tf=True, and save it with save_pretrained.",
    ),
    OtherForm(
        ("*.ckpt.*", "*.ckpt-*.*", "*.index", "*.meta", "*.data-*-of-*", "saved_model.pb"),
        "The weights exist only as a TensorFlow checkpoint.",
        "On a machine with TensorFlow and transformers 4, run the script "
        "convert_bert_original_tf_checkpoint_to_pytorch. It writes pytorch_model.bin; convert "
        "that with `python -m audit models convert FOLDER --out NEW_FOLDER`.",
    ),
    OtherForm(
        ("flax_model.msgpack", "flax_model-*-of-*.msgpack"),
        "The weights exist only in the format of Flax (flax_model.msgpack).",
        "On a machine with Flax and transformers 4, load the model as ...ForMaskedLM with "
        "from_flax=True, and save it with save_pretrained.",
    ),
    OtherForm(
        ("*.onnx", "onnx/"),
        "The model was exported to ONNX, which fixes its arithmetic and leaves out dropout.",
        _ORIGINAL_MODEL,
    ),
    OtherForm(
        ("openvino_model.*", "openvino/"),
        "The model was exported to OpenVINO, which fixes its arithmetic and leaves out dropout.",
        _ORIGINAL_MODEL,
    ),
    OtherForm(
        ("rust_model.ot", "*.mlmodel", "*.mlpackage/", "coreml/", "*.tflite"),
        "The weights are in the format of another library (Rust, Core ML or TensorFlow Lite).",
        _ANOTHER_FORM,
    ),
    OtherForm(
        ("global_step*/", "pytorch_model_fsdp_*/", "*_model_states.pt"),
        "The weights are still in the parts in which a training on several devices (DeepSpeed or "
        "FSDP) saved them.",
        "Join the parts with zero_to_fp32.py (DeepSpeed) or `accelerate merge-weights` (FSDP). "
        "If the result is pytorch_model.bin, convert that with `python -m audit models convert "
        "FOLDER --out NEW_FOLDER`.",
    ),
    OtherForm(
        ("checkpoint-*/",),
        "The directory holds checkpoints of a training ({folders}), but no finished model.",
        "Choose the checkpoint that is to be audited.",
    ),
    OtherForm(
        ("snapshots/",),
        "This is a model's directory in the Hugging Face cache, and it does not hold exactly one "
        "snapshot.",
        "Choose one of the directories in snapshots.",
    ),
    OtherForm(
        ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle"),
        "There is no model.safetensors, only a file of unknown content in a format that can run "
        "code.",
        "If it holds the weights of this model and nothing else, rename it to pytorch_model.bin, "
        "then run `python -m audit models convert FOLDER --out NEW_FOLDER`.",
    ),
    OtherForm(
        ("*",),
        "The directory holds no model weights.",
        "Choose the directory that the model was saved in.",
    ),
    OtherForm((), "The directory is empty.", "Copy the model into it."),
)
"""Forms in the order in which they are tried; the last one is that of a directory without files."""


def find_other_form(folder: ModelFolder) -> OtherForm | None:
    """Return the form in which a directory holds a model; None if that is safetensors."""
    entries = [name for name in folder.entries if not _is_training_state(name)]
    has_weights = SINGLE_FILE in folder.files or INDEX_FILE in folder.files
    for form in OTHER_FORMS:
        if form.fits(entries) and (form.is_refused_beside_weights or not has_weights):
            return form
    return None if has_weights else OTHER_FORMS[-1]


def has_weights_of_any_form(files: Iterable[str]) -> bool:
    """Whether names of files are those of a model's weights, in whatever form."""
    names = [name for name in files if not _is_training_state(name)]
    is_safetensors = SINGLE_FILE in names or INDEX_FILE in names
    return is_safetensors or any(form.fits(names) for form in OTHER_FORMS[:-3])


def _is_training_state(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in _TRAINING_STATES)


# Kinds whose config.json may name no class; the classes tell the others.
_CAUSAL_KINDS = ("gpt_neo", "gptj", "biogpt", "opt", "bloom")
_SEQUENCE_KINDS = ("t5", "mt5", "bart", "mbart", "pegasus", "led")
_CAUSAL_CLASSES = ("ForCausalLM", "LMHeadModel")
_TEXT_PARTS = {"gemma3": "gemma3_text"}
"""Kind of a model of texts and pictures -> the kind of its text part."""
_SEQUENCE_CLASSES = ("ForConditionalGeneration",)


def take_text_part(raw: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the settings of the text part, if a model is one of texts and pictures."""
    text_kind, part = _TEXT_PARTS.get(str(raw.get("model_type"))), raw.get("text_config")
    if text_kind is None:
        return raw
    return {**(part if isinstance(part, dict) else {}), "model_type": text_kind}


def refuse_other_kinds(raw: Mapping[str, JsonValue], *, place: str) -> None:
    """Refuse a quantised model, and one that cannot be audited, by its config.json.

    Of a kind that can be audited, only the tensors tell what was saved.
    """
    method = raw.get("quantization_config")
    if method is not None:
        name = method.get("quant_method") if isinstance(method, dict) else None
        raise AuditError(
            "The weights are quantised ({method}), which changes every probability.",
            where=place,
            do="Use the model as it was before it was quantised.",
            method=make_printable(str(name or "quantization_config")),
        )
    kind, classes = str(raw.get("model_type")), list_model_classes(raw)
    if kind in SUPPORTED_KINDS or kind in _TEXT_PARTS:
        return
    if raw.get("vision_config") is not None:
        raise AuditError(
            "Models of texts and pictures of the kind {kind} cannot be audited.",
            where=place,
            do="Of such models only the text part of Gemma 3 is read.",
            kind=f'"{make_printable(kind)}"',
        )
    if kind in _CAUSAL_KINDS or any(name.endswith(_CAUSAL_CLASSES) for name in classes):
        raise AuditError(
            "Causal language models of the kind {kind} cannot be audited.",
            where=place,
            do="These kinds of causal models can be audited: {kinds}.",
            kinds=", ".join(k.name for k in SUPPORTED_KINDS.values() if k.config.is_causal),
            kind=f'"{make_printable(kind)}"',
        )
    if kind in _SEQUENCE_KINDS or any(name.endswith(_SEQUENCE_CLASSES) for name in classes):
        raise AuditError(
            "This is an encoder-decoder model ({kind}), which writes a new text from a given one.",
            where=place,
            do="Choose a masked language model, such as BERT, or a causal one, such as Llama.",
            kind=make_printable(kind),
        )


def refuse_missing_kind(
    raw: Mapping[str, JsonValue], *, tensor_names: Iterable[str], place: str
) -> None:
    """Refuse a config.json without `model_type`, and say which one the model seems to be."""
    if raw.get("model_type"):
        return
    if kind := guess_kind(raw, tensor_names=tensor_names):
        raise AuditError(
            "The file config.json does not say what kind of model this is (model_type). Its "
            'tensors and settings look like those of "{kind}".',
            where=place,
            do='Add "model_type": "{kind}" to config.json, or run `python -m audit models '
            "convert FOLDER --out NEW_FOLDER --model-type {kind}`.",
            kind=kind,
        )
    raise AuditError(
        "The file config.json does not say what kind of model this is (model_type).",
        where=place,
        do='Add "model_type" to config.json, with one of these kinds: {kinds}.',
        kinds=", ".join(SUPPORTED_KINDS),
    )


def refuse_missing_config(folder: ModelFolder) -> None:
    """Refuse a directory without config.json."""
    if "config.json" not in folder.files:
        raise AuditError(
            "The file config.json is missing.",
            where=folder.name,
            do='Copy bert_config.json to config.json, and add "model_type": "bert" to the copy.'
            if "bert_config.json" in folder.files
            else "Copy it from where the model was saved. It says how the weights are used.",
        )
