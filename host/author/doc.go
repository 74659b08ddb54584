// Package author is the bench of those who write plugins: it makes a project from nothing, builds it with the tools of its
// language, and judges the module without a server.
//
//	p, err := author.New(author.Wanted{Dir: "spam-filter", Lang: author.Go})
//	built, err := p.Build(ctx, os.Stderr)
//	s, err := author.Open(file, author.Setting{})  // a session: one instance, loaded as a server would
//	defer s.Close()
//	outcome, err := s.Run(ctx, abi.Filter, record)
//
// # The project
//
// A project is a directory that stands for itself: what it is written with is in it, so that it builds without a network and
// without this repository.
//
//	manifest.json    the plugin's name, version, hooks, and what it imports with reasons; Build puts it into the module
//	plugin.go        or plugin.c, or assembly/index.ts
//	tidewheel/       the kit: copies of the packages guest and abi for Go, of the header for C, of the module for AssemblyScript
//	testdata/        records and the verdicts on them, see package golden
//
// The language is told from go.mod, package.json, or a file that ends with .c.
package author
