package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidewheel/tidewheel/host/client"
)

func (a *app) completion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a shell's completion script",
		Long: `Print the script by which a shell completes verbs, flags and their values; names of topics and groups are asked of the
server. It has to be read by the shell, each time that it starts.`,
		Example: `  source <(tidewheel completion bash)
  tidewheel completion zsh > "${fpath[1]}/_tidewheel"
  tidewheel completion fish > ~/.config/fish/completions/tidewheel.fish`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(a.stdout)
			case "fish":
				return cmd.Root().GenFishCompletion(a.stdout, true)
			case "powershell":
				return cmd.Root().GenPowerShellCompletionWithDesc(a.stdout)
			}
			return fmt.Errorf("%w: no such shell", errUsage)
		},
	}
}

// completionWait is how long a server may take to be asked for names.
const completionWait = time.Second

// namer finds the values that an argument or a flag can have.
type namer = func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective)

// noFiles says that names of files make no sense there.
const noFiles = cobra.ShellCompDirectiveNoFileComp

// completes tells the shells what values the flags and arguments of a verb, and of those below, have.
func (a *app) completes(cmd *cobra.Command) {
	for flag, names := range map[string]namer{"topic": a.topicNames, "group": a.groupNames, "running": a.pluginNames} {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, names) // the flag is there, and has none
		}
	}
	if !cmd.HasSubCommands() && cmd.ValidArgs == nil {
		cmd.ValidArgsFunction = a.argument(cmd)
	}
	for _, sub := range cmd.Commands() {
		a.completes(sub)
	}
}

// argument finds the values of a verb's first argument by its name in the use line.
func (a *app) argument(cmd *cobra.Command) namer {
	names := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return nil, noFiles }
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(cmd.Use))
	if len(words) > 1 {
		switch words[1] {
		case "TOPIC":
			names = a.topicNames
		case "GROUP":
			names = a.groupNames
		case "PLUGIN":
			names = a.pluginNames
		case "DIR", "FILE":
			return nil // of files, as shells do it
		}
	}
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return names(cmd, args, begin)
	}
}

// topicNames are the server's topics.
func (a *app) topicNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.serverNames(cmd, func(ctx context.Context, c *client.Client) (names []string, err error) {
		got, err := c.Topics(ctx)
		for _, t := range got.Topics {
			names = append(names, t.Name)
		}
		return names, err
	})
}

// groupNames are the server's consumer groups.
func (a *app) groupNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.serverNames(cmd, func(ctx context.Context, c *client.Client) (names []string, err error) {
		got, err := c.Groups(ctx)
		for _, g := range got.Groups {
			names = append(names, g.Name)
		}
		return names, err
	})
}

// pluginNames are the server's plugins.
func (a *app) pluginNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.serverNames(cmd, func(ctx context.Context, c *client.Client) (names []string, err error) {
		got, err := c.Plugins(ctx)
		for i := range got.Plugins {
			names = append(names, got.Plugins[i].Name)
		}
		return names, err
	})
}

// serverNames asks the server. Without an answer there are no names: a shell has nowhere to show an error.
func (a *app) serverNames(cmd *cobra.Command, ask func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	c, err := a.client()
	if err != nil {
		return nil, noFiles
	}
	defer c.CloseIdle()
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionWait)
	defer cancel()
	names, _ := ask(ctx, c)
	return names, noFiles
}
