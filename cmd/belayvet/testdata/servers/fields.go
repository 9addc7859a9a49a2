package servers

import (
	"github.com/belayq/belay"

	"example.com/shop/jobs"
)

type shop struct {
	*site
	server *belay.Server
	Public *belay.Server
	next   *shop
	shared *belay.Server
}

var shared *belay.Server

func newShop(client *belay.Client) *shop {
	server := newServer(client)
	return &shop{server: server, Public: server, shared: onlyOne}
}

var onlyOne = newServer(nil)

type branch struct{ server *belay.Server }

type stand struct{ server *belay.Server }

func newBranch(server *belay.Server) *branch { return &branch{server: server} }

// What one function makes twice is two things.
func twoShops(client *belay.Client) {
	a, b := newShop(client), newShop(client)
	mail.Handle(a.server, run)
	mail.Handle(b.server, run)
	report.Handle(a.Public, run)
	report.Handle(b.Public, run)
	c, d := newBranch(a.server), newBranch(b.server)
	letter.Handle(c.server, run)
	letter.Handle(d.server, run)
	letter.Handle(d.server, run) // want `^Mail gets a second handler .* fields.go:41$`
	jobs.Welcome.Handle(a.shared, run)
	jobs.Welcome.Handle(b.shared, run) // want `^Welcome gets a second handler .* fields.go:43$`
}

// What leads back to itself is not followed for ever.
func circles(from, to *shop) {
	from.next = from.next.next
	mail.Handle(from.next.server, run)
	mail.Handle(from.next.server, run) // want `^Mail gets a second handler`
	var this, that *belay.Server
	this, that = that, this
	report.Handle(this, run)
	report.Handle(that, run)
	from.swap()
}

type pair struct {
	from, to *belay.Server
	mail     *belay.Definition[int]
	also     *belay.Definition[int]
}

func (p *pair) swap() {
	p.from, p.to = p.to, p.from
	p.mail, p.also = p.also, p.mail
	p.mail.Handle(p.from, run)
	p.also.Handle(p.to, run)
}

func (s *shop) swap() {}

func (s *shop) renew(client *belay.Client) {
	shared = newServer(client)
	mail.Handle(shared, run)
	fresh := &stand{}
	fresh.server = newServer(client)
	report.Handle(fresh.server, run)
	report.Handle(fresh.server, run) // want `^Report gets a second handler`
}

// Each call sets another server.
func eachItsOwn(s *shop, client *belay.Client) {
	s.renew(client)
	s.renew(client)
	mail.Handle(shared, run)
	s.renew(client)
	mail.Handle(shared, run)
}
