"""Programs on top of the product: they reproduce tables of papers or make a built-in model.

No package of the product imports this one. Where it is installed, `hasse study` reads `COMMANDS`,
and `hasse.models.encoders.model_config` reads `MODEL_CONFIGS`.
"""

COMMANDS = {
    "hypernyms": "hasse.studies.hypernyms.command:hypernyms",
    "entailment": "hasse.studies.entailment.command:entailment",
    "transfer": "hasse.studies.transfer.command:transfer",
    "states": "hasse.studies.transfer.states_command:states",
    "captioner": "hasse.studies.captioner.command:captioner",
    "photographs": "hasse.studies.photographs.command:photographs",
    "grounding": "hasse.studies.grounding.command:grounding",
    "distill": "hasse.studies.distillation.command:distill",
    "figures": "hasse.studies.tables.command:figures",
    "lengths": "hasse.studies.tables.command:lengths",
    "plot": "hasse.studies.tables.command:plot",
}

# Shapes of models that are not the product's own, by their text encoder.
MODEL_CONFIGS = dict.fromkeys(
    ("gru", "lstm", "bilstm", "sum"), "hasse.studies.grounding.sentence_model:SentenceModelConfig"
)
