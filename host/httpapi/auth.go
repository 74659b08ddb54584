package httpapi

// Role is what somebody may do. Each includes those before it.
type Role uint8

// The roles.
const (
	RoleNone    Role = iota // a stranger: health, documents
	RoleRead                // looks, and changes nothing
	RoleProduce             // stores, cancels and moves messages, and consumes them as a group
	RoleOperate             // topics, groups, dead letters, bulk changes, the configuration
)

// String is the role's word.
func (r Role) String() string {
	return [...]string{"none", "read", "produce", "operate"}[r]
}
