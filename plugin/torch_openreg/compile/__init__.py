# SPDX-License-Identifier: BSD-3-Clause
"""
torch.compile on the card. Inductor hands over fused loops; they become VECTOR programs.

- registration: when and what is registered
- device: what Dynamo and Inductor ask about the device
- steering: operators that keep their eager kernel, and decompositions for openreg only
- quantized: products with quantized weights; embeddings: gradients that are added in place
- scheduling: which loops become one program
- loops: one iteration space for several loops
- tracing, operations: the body of a loop as a list of values
- stages: what comes before, between and after the reductions of a program
- registers: values to registers, and programs that fit into a packet
- values: the instructions of a program before they have registers
- listing: the text of a program in the generated code; assembler: from the text to a packet
- eager_lines: loops that no program can express, as lines of torch operators; eager runs them
- wrapper: the generated Python code; replay: mode="reduce-overhead"
- on_cpu: what a graph with the card computes on the CPU
- passthrough: backend="openreg", the smallest compiler, which generates nothing

Importing torch does not import this package: it imports Inductor.
"""
