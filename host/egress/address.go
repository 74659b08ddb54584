package egress

import (
	"fmt"
	"net/netip"
)

// special are addresses that are no host of the public Internet, or one that gives this machine's secrets away: the blocks of
// IANA's registries of special purposes that are not globally reachable, and those that lead elsewhere. Of version 6
// everything outside 2000::/3 is refused beside them.
var special = prefixes(
	"0.0.0.0/8",       // this network
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // shared by carriers; a cloud's metadata is in it
	"127.0.0.0/8",     // this machine
	"169.254.0.0/16",  // this link; most clouds' metadata
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocols; a cloud's metadata is in it
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays of 6to4
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // measuring
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, and the broadcast address
	"168.63.129.16/32",
	"2001::/23",     // protocols, with tunnels of Teredo
	"2001:db8::/32", // documentation
	"2002::/16",     // 6to4: an address of version 4 is in it
	"3fff::/20",     // documentation
)

var (
	global = netip.MustParsePrefix("2000::/3")
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(all ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(all))
	for i, text := range all {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// ParsePrivate reads a block of addresses that requests may go to beside public ones, as 10.1.0.0/16 or one address.
func ParsePrivate(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("egress: private address %q: not an address or a block as 10.1.0.0/16", text)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("egress: private address %q: write it as a block of version 4", text)
	case p.Masked() != p:
		return p, fmt.Errorf("egress: private address %q: the block is %s", text, p.Masked())
	}
	return p, nil
}

// Public says whether an address is one of the public Internet. The forms in which an address of version 6 holds one of
// version 4 that a gateway would send on are judged by that.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = inner(a)
	if a.Is6() && !global.Contains(a) {
		return false
	}
	return !within(special, a)
}

// inner is the address of version 4 within one of version 6, mapped or for NAT64; any other address is itself.
func inner(a netip.Addr) netip.Addr {
	if a = a.Unmap(); nat64.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

func within(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// reaches says whether requests may go to an address.
func reaches(a netip.Addr, private []netip.Prefix) bool {
	return Public(a) || within(private, inner(a)) || within(private, a)
}
