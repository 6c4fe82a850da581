"""The same requests to Bolide and to RocketMQ 5.5.0: answers and effects are equal, or the difference is listed.

    make differential ARGS="--requests 5000 --seed 7"

docs/proof.md says how it is read, docs/compatibility.md lists the differences that are meant.
"""
