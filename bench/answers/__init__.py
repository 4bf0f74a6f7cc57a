"""Answers questions of LoCoMo and LongMemEval with a language model and the memories of `/v1/context`.

`python -m bench.answers FILE` loads the benchmark's original file into a store of its own, serves it, and for each
question asks the service for the context, the model for an answer, and a judge whether the answer is right. It needs a
server with OpenAI's chat completions API, which may cost money; nothing else here calls one.
"""
