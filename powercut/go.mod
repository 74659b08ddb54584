module github.com/tidewheel/tidewheel/powercut

go 1.26

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/tidewheel/tidewheel v0.0.0
	golang.org/x/sys v0.42.0
)

replace github.com/tidewheel/tidewheel => ../
