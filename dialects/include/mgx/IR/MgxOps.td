//===- MgxOps.td - every op of the dialect ---------------------*- tablegen -*-===//
#ifndef MGX_OPS_TD
#define MGX_OPS_TD

include "mgx/IR/MgxPointwiseOps.td"
include "mgx/IR/MgxTensorOps.td"
include "mgx/IR/MgxWindowOps.td"
include "mgx/IR/MgxProgramOps.td"

#endif // MGX_OPS_TD
