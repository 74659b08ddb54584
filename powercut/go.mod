module github.com/tidewheel/tidewheel/powercut

go 1.26.0

require (
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/tidewheel/tidewheel v0.0.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/spf13/afero v1.15.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace github.com/tidewheel/tidewheel => ../
