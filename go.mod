module github.com/tidewheel/tidewheel

go 1.26
