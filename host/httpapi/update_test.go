package httpapi

import "flag"

// Update is the flag of all tests of this package that compare with a file.
var Update = flag.Bool("update", false, "record the examples of the document, and pages of docs, anew")
