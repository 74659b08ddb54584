package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// CheckName returns nil if name may be used with an FS, and otherwise a *fs.PathError of kind fs.ErrInvalid.
// It is for implementations: each calls it first, so that a name is good everywhere or nowhere. Besides what
// fs.ValidPath refuses it refuses a backslash, a colon and a zero byte, which have a meaning of their own on Windows.
func CheckName(op, name string) error {
	if fs.ValidPath(name) && !strings.ContainsAny(name, "\\:\x00") {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
}

// CheckOpen returns nil if OpenFile may be called with name and flag, and otherwise a *fs.PathError of kind
// fs.ErrInvalid. It is for implementations.
func CheckOpen(name string, flag int) error {
	if err := CheckName("open", name); err != nil {
		return err
	}
	reason := ""
	switch {
	case flag&^(os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_TRUNC) != 0:
		reason = "flags other than O_RDWR, O_CREATE, O_EXCL and O_TRUNC"
	case flag&os.O_RDWR == 0 && flag != os.O_RDONLY:
		reason = "O_CREATE or O_TRUNC without O_RDWR"
	case flag&os.O_EXCL != 0 && flag&os.O_CREATE == 0:
		reason = "O_EXCL without O_CREATE"
	default:
		return nil
	}
	return &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%s: %w", reason, fs.ErrInvalid)}
}

// WrapError returns err as the *fs.PathError that an FS or a File owes its caller: with op and name in place of those
// of a *fs.PathError within (a back end may know the file by another name), and of kind ErrNoSpace if the cause is a
// full disk. It is for implementations. WrapError of nil is nil.
func WrapError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if IsNoSpace(err) && !errors.Is(err, ErrNoSpace) {
		err = noSpaceError{err}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
