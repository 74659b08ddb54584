package pluginhost

// Changing says whether a Reconfigure wants verifications to end.
func (h *Host) Changing() bool { return h.yielding.Load() > 0 }
