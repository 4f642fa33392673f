# SPDX-License-Identifier: BSD-3-Clause
"""
torch.compile on the card. Inductor hands over fused loops; they become VECTOR programs.

- device: what Dynamo and Inductor ask about the device
- steering: operators that keep their eager kernel, and decompositions for openreg only
- scheduling: which loops become one program
- loops: one iteration space for several loops
- tracing: the body of a loop as a list of values
- registers: values to registers, and programs that fit into a packet
- assembler: the text of a program, in the generated code, to a packet
- eager: loops that no program can express, as torch operators
- wrapper: the generated Python code

Importing torch does not import this package: it imports Inductor.
"""
