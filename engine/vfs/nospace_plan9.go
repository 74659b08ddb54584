package vfs

// noSpaceCodes is empty: Plan 9 has texts, and each file server its own. It never changes.
var noSpaceCodes = [...]error{}
