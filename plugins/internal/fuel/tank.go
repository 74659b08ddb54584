package fuel

// Global is a mutable global of a running module, as the runtime has it.
type Global interface {
	Get() uint64 // the value, an i64
	Set(uint64)  // of the value
}

// Tank is the fuel of a running module. The zero Tank is none. Not safe for concurrent use, nor while the module runs, except
// by a function of the host that it has called.
type Tank struct {
	slice, rest Global
}

// NewTank returns the fuel of a module whose exports are given.
func NewTank(slice, rest Global) Tank { return Tank{slice, rest} }

// There says whether there is one.
func (t Tank) There() bool { return t.slice != nil }

// Fill sets the fuel to n units.
func (t Tank) Fill(n int64) {
	first := min(n, Slice)
	t.slice.Set(uint64(first))
	t.rest.Set(uint64(n - first))
}

// Left is what is left; below zero when the fuel ran out.
func (t Tank) Left() int64 { return int64(t.slice.Get()) + int64(t.rest.Get()) }

// Take takes n units for work that the host does. It returns false when there were fewer: the module then ends at its next
// check.
func (t Tank) Take(n int64) bool {
	slice := int64(t.slice.Get()) - n
	t.slice.Set(uint64(slice))
	return slice >= 0 || slice+int64(t.rest.Get()) >= 0
}
