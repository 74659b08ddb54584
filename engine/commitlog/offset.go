package commitlog

// Offset is a byte position in the CommitLog: the base of a segment plus the byte in its file. A record's position is
// its name for as long as the log keeps it; positions never repeat and never move.
type Offset int64

// Kind says what a record is. The log carries it and does not judge it: the kinds belong to the fold over the log.
type Kind uint8

// KindNone is the kind of a record that was never written; a record of this kind is damage.
const KindNone Kind = 0
