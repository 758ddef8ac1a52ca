"""Programs on top of the product: they reproduce tables of papers or make a built-in model.

No package of the product imports this one. Where it is installed, `hasse study` reads `COMMANDS`,
and `hasse.models.encoders.units.registry` reads `TEXT_UNITS`.
"""

COMMANDS = {
    "hypernyms": "hasse.studies.hypernyms.command:hypernyms",
    "entailment": "hasse.studies.entailment.command:entailment",
    "transfer": "hasse.studies.transfer.command:transfer",
    "captioner": "hasse.studies.captioner.command:captioner",
    "photographs": "hasse.studies.photographs.command:photographs",
    "grounding": "hasse.studies.grounding.command:grounding",
    "distill": "hasse.studies.distillation.command:distill",
    "figures": "hasse.studies.tables.command:figures",
    "lengths": "hasse.studies.tables.command:lengths",
    "plot": "hasse.studies.tables.command:plot",
}

# Units that read captions beside the GRU.
TEXT_UNITS = {
    "lstm": "hasse.studies.grounding.lstm:LSTM",
    "bilstm": "hasse.studies.grounding.lstm:BiLSTM",
    "sum": "hasse.studies.grounding.word_sum:WordSum",
}
