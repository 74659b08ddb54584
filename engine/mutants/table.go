package main

// table has one row for each mutant, in the order of the layers: CommitLog, queues, timers, checkpoint, engine.
var table = []mutant{}
