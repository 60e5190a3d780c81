#!/bin/sh
# Makes the programs of this folder anew: each is what one command writes. `make bless` runs the same lines.
set -eu
cd "$(dirname "$0")"
DISTIR=${DISTIR:-distir}

"$DISTIR" model mlp --layers 4 --width 128 --batch 512 --dtype Float32 -o mlp.dir
"$DISTIR" transform grad optimizer=adam mlp.dir -o mlp_training.dir
"$DISTIR" transform dp=2 mlp_training.dir -o mlp_dp.dir
"$DISTIR" transform tp=2 mlp_training.dir -o mlp_tp.dir
"$DISTIR" transform pp=2 microbatches=4 schedule=1f1b mlp_training.dir -o mlp_pp_1f1b.dir
"$DISTIR" transform pp=2 microbatches=4 schedule=zb-h1 mlp_training.dir -o mlp_pp_zb_h1.dir
"$DISTIR" transform dp=2 zero=1 mlp_training.dir -o mlp_zero1.dir
"$DISTIR" transform dp=2 zero=3 partition=split mlp_training.dir -o mlp_zero3.dir
"$DISTIR" transform checkpoint=2 mlp_training.dir -o mlp_checkpoint.dir
"$DISTIR" transform dtp=2,2,2 microbatches=2 mlp_training.dir -o mlp_dtp.dir

"$DISTIR" model gpt2 --layers 2 --width 64 --heads 4 --vocabulary 128 --sequence 16 --batch 8 --dtype Float32 -o gpt2.dir
"$DISTIR" transform dp=2 gpt2.dir -o gpt2_dp.dir
"$DISTIR" transform tp=2 gpt2.dir -o gpt2_tp.dir
"$DISTIR" transform pp=2 microbatches=4 gpt2.dir -o gpt2_pp.dir
"$DISTIR" transform dtp=2,2,2 microbatches=2 gpt2.dir -o gpt2_dtp.dir
"$DISTIR" transform grad loss=cross_entropy gpt2.dir -o gpt2_training.dir
"$DISTIR" transform dp=2 zero=2 gpt2_training.dir -o gpt2_training_zero2.dir
"$DISTIR" transform tp=2 gpt2_training.dir -o gpt2_training_tp.dir
"$DISTIR" transform pp=2 microbatches=4 schedule=1f1b gpt2_training.dir -o gpt2_training_pp_1f1b.dir
"$DISTIR" transform checkpoint=block gpt2_training.dir -o gpt2_training_checkpoint.dir
"$DISTIR" transform dtp=1,2,2 microbatches=2 schedule=1f1b gpt2_training.dir -o gpt2_training_dtp.dir
